//! rayon's recursion, loops and graphs; bench/patterns/rayon.c holds the table, bench/patterns.h says what each does.

use crate::Pool;
use std::os::raw::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

type Body = extern "C" fn(usize, usize, *mut c_void, *mut c_void) -> i32;
type NodeBody = extern "C" fn(*mut c_void, u32);

fn fib(n: u32) -> u64 {
    if n < 2 {
        return u64::from(n);
    }
    let (a, b) = rayon::join(|| fib(n - 1), || fib(n - 2));
    a + b
}

/// # Safety
/// `this` is from rayon_create.
#[no_mangle]
pub unsafe extern "C" fn rayon_fib(this: *mut Pool, n: u32) -> u64 {
    (*this).pool.install(|| fib(n))
}

#[derive(Clone, Copy)]
struct Row {
    all: u32,
    down: u32,
    left: u32,
    right: u32,
}

impl Row {
    fn place(&self, column: u32) -> Row {
        Row {
            all: self.all,
            down: self.down | column,
            left: (self.left | column) << 1,
            right: (self.right | column) >> 1,
        }
    }
}

fn queens(row: Row) -> u64 {
    if row.down == row.all {
        return 1;
    }
    queens_free(row, row.all & !(row.down | row.left | row.right))
}

fn queens_free(row: Row, free: u32) -> u64 {
    let (first, rest) = (free & free.wrapping_neg(), free & free.wrapping_sub(1));
    if free == 0 {
        return 0;
    }
    if rest == 0 {
        return queens(row.place(first));
    }
    let (a, b) = rayon::join(|| queens(row.place(first)), || queens_free(row, rest));
    a + b
}

/// # Safety
/// `this` is from rayon_create.
#[no_mangle]
pub unsafe extern "C" fn rayon_nqueens(this: *mut Pool, n: u32) -> u64 {
    let first = Row { all: (1 << n) - 1, down: 0, left: 0, right: 0 };
    (*this).pool.install(|| queens(first))
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Tree {
    seed: u64,
    levels: u32,
    root_children: u32,
}

#[derive(Clone, Copy)]
struct Node {
    state: u64,
    level: u32,
}

fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d049bb133111eb);
    x ^ (x >> 31)
}

impl Node {
    fn child(&self, i: u32) -> Node {
        let step = 0x9e3779b97f4a7c15u64.wrapping_mul(u64::from(i) + 1);
        Node { state: mix(self.state.wrapping_add(step)), level: self.level + 1 }
    }

    fn children(&self, tree: &Tree) -> u32 {
        let random = (self.state >> 32) as u32;
        if tree.levels == 0 {
            return match self.level {
                0 => tree.root_children,
                _ if random < 536334041 => 8,
                _ => 0,
            };
        }
        if self.level >= tree.levels {
            return 0;
        }
        let (mut bound, mut count) = (u32::MAX - u32::MAX / 5, 0);
        while random < bound && count < 100 {
            bound -= bound / 5;
            count += 1;
        }
        count
    }
}

fn uts(tree: &Tree, node: Node) -> u64 {
    match node.children(tree) {
        0 => 1,
        children => 1 + uts_range(tree, node, 0, children),
    }
}

fn uts_range(tree: &Tree, node: Node, first: u32, end: u32) -> u64 {
    if end - first == 1 {
        return uts(tree, node.child(first));
    }
    let middle = first + (end - first) / 2;
    let (a, b) = rayon::join(|| uts_range(tree, node, first, middle), || uts_range(tree, node, middle, end));
    a + b
}

/// # Safety
/// `this` is from rayon_create; tree can be read.
#[no_mangle]
pub unsafe extern "C" fn rayon_uts(this: *mut Pool, tree: *const Tree) -> u64 {
    let tree = *tree;
    let root = Node { state: mix(tree.seed), level: 0 };
    (*this).pool.install(|| uts(&tree, root))
}

#[repr(C)]
pub struct Loop {
    n: usize,
    grain: usize,
    body: Body,
    context: *mut c_void,
}

#[derive(Clone, Copy)]
struct Shared<T>(*const T);
unsafe impl<T> Send for Shared<T> {}
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    fn get(&self) -> &T {
        unsafe { &*self.0 }
    }
}

/// # Safety
/// `this` is from rayon_create; the loop can be read and its body called.
#[no_mangle]
pub unsafe extern "C" fn rayon_loop(this: *mut Pool, region: *const Loop) -> i32 {
    use rayon::prelude::*;
    let shared = Shared(region);
    (*this).pool.install(move || {
        let region = shared;
        let chunks = region.get().n.div_ceil(region.get().grain);
        (0..chunks).into_par_iter().for_each(|i| {
            let it = region.get();
            (it.body)(i * it.grain, it.n.min((i + 1) * it.grain), it.context, std::ptr::null_mut());
        });
    });
    0
}

#[repr(C)]
pub struct Graph {
    nodes: u32,
    before_start: *const u32,
    before: *const u32,
    after_start: *const u32,
    after: *const u32,
    body: NodeBody,
    context: *mut c_void,
}

/// rayon has no graphs: a counter for each node, and a spawn for each that becomes ready.
pub struct Made {
    graph: *const Graph,
    missing: Vec<AtomicU32>,
}
unsafe impl Sync for Made {} // the graph is only read

impl Graph {
    unsafe fn waits(&self, node: u32) -> u32 {
        *self.before_start.add(node as usize + 1) - *self.before_start.add(node as usize)
    }
}

impl Made {
    unsafe fn graph(&self) -> &Graph {
        &*self.graph
    }

    /// Runs the node and what becomes ready by it: the first here, the others spawned.
    unsafe fn run<'a>(&'a self, scope: &rayon::Scope<'a>, mut node: u32) {
        let graph = self.graph();
        loop {
            (graph.body)(graph.context, node);
            let mut next = None;
            for k in *graph.after_start.add(node as usize)..*graph.after_start.add(node as usize + 1) {
                let to = *graph.after.add(k as usize);
                let missing = &self.missing[to as usize];
                if missing.fetch_sub(1, Ordering::AcqRel) != 1 {
                    continue;
                }
                missing.store(graph.waits(to), Ordering::Relaxed);
                if next.is_none() {
                    next = Some(to);
                } else {
                    scope.spawn(move |scope| self.run(scope, to));
                }
            }
            match next {
                Some(to) => node = to,
                None => return,
            }
        }
    }
}

/// # Safety
/// `this` is from rayon_create; the graph stays where it is. The result is never freed: the process ends with its rounds.
#[no_mangle]
pub unsafe extern "C" fn rayon_graph_make(_this: *mut Pool, graph: *const Graph) -> *mut c_void {
    let missing = (0..(*graph).nodes).map(|i| AtomicU32::new((*graph).waits(i))).collect();
    Box::into_raw(Box::new(Made { graph, missing })) as *mut c_void
}

/// # Safety
/// Both are from this library.
#[no_mangle]
pub unsafe extern "C" fn rayon_graph_run(this: *mut Pool, made: *mut c_void) -> i32 {
    let shared = Shared(made as *const Made);
    (*this).pool.install(move || {
        let made = shared;
        rayon::scope(|scope| unsafe {
            let own = made.get();
            for i in 0..own.graph().nodes {
                if own.graph().waits(i) == 0 {
                    scope.spawn(move |scope| own.run(scope, i));
                }
            }
        });
    });
    0
}
