//! rayon: a ThreadPool's in-place scope, so that an outside thread spawns and W threads beside it run.
//! bench/entrants/rayon.c holds the entrant's table.

mod patterns;

use std::os::raw::c_void;

type Job = extern "C" fn(*mut c_void, *mut c_void) -> i32;

// Recursion that goes thousands of levels deep; untouched pages cost nothing.
const STACK_BYTES: usize = 64 << 20;

pub struct Pool {
    pool: rayon::ThreadPool,
    scope: *const c_void, // the rayon::Scope that is open, while one is
}

#[repr(C, align(16))]
#[derive(Clone, Copy)]
struct Bytes<const N: usize>([u8; N]);

/// # Safety
/// The result is passed to the other functions only, by one thread.
#[no_mangle]
pub unsafe extern "C" fn rayon_create(workers: u32) -> *mut Pool {
    match rayon::ThreadPoolBuilder::new().num_threads(workers as usize).stack_size(STACK_BYTES).build() {
        Ok(pool) => Box::into_raw(Box::new(Pool { pool, scope: std::ptr::null() })),
        Err(_) => std::ptr::null_mut(),
    }
}

/// # Safety
/// `this` is from rayon_create.
#[no_mangle]
pub unsafe extern "C" fn rayon_destroy(this: *mut Pool) {
    drop(Box::from_raw(this));
}

struct Pointers(*mut Pool, *mut c_void);
unsafe impl Send for Pointers {}

/// # Safety
/// `this` is from rayon_create; body may be called with arg.
#[no_mangle]
pub unsafe extern "C" fn rayon_enter(this: *mut Pool, body: extern "C" fn(*mut c_void), arg: *mut c_void) {
    let both = Pointers(this, arg);
    (*this).pool.in_place_scope(move |scope| {
        let both = both;
        (*both.0).scope = scope as *const rayon::Scope as *const c_void;
        body(both.1);
    });
    (*this).scope = std::ptr::null(); // jobs may have spawned others until all had ended
}

unsafe fn spawn<const N: usize>(this: *mut Pool, job: Job, payload: *const u8, size: usize) {
    let mut copy = Bytes::<N>([0; N]);
    std::ptr::copy_nonoverlapping(payload, copy.0.as_mut_ptr(), size);
    let scope = &*((*this).scope as *const rayon::Scope<'static>);
    scope.spawn(move |_| {
        let mut mine = copy;
        job(mine.0.as_mut_ptr() as *mut c_void, std::ptr::null_mut());
    });
}

/// # Safety
/// Inside rayon_enter's body; payload holds size bytes, at most 1024.
#[no_mangle]
pub unsafe extern "C" fn rayon_submit(this: *mut Pool, job: Job, payload: *const u8, size: usize) -> i32 {
    match size {
        0..=16 => spawn::<16>(this, job, payload, size),
        17..=64 => spawn::<64>(this, job, payload, size),
        65..=448 => spawn::<448>(this, job, payload, size),
        449..=1024 => spawn::<1024>(this, job, payload, size),
        _ => return -1,
    }
    0
}
