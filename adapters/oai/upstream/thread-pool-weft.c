/*
 * The thread pool on weft, for builds with ENABLE_WEFT where weft is installed; other builds use thread-pool.c.
 *
 * Tasks are copied into weft's queue: there is no mutex and no allocation, and any idle thread takes any task. Threads are
 * named, placed and scheduled as by threadCreate(); a refusal by the system is logged, and the pool works without it.
 */

#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <weft.h>
#include "thread-pool.h"
#include "common/utils/LOG/log.h"

#define MAX_THREADS 512

/// tpool_t.q_arr points to it; of the other members only len_thr is used
typedef struct {
  weft_pool *weft;
  weft_group tasks;
  int num_threads;
  int core_id[MAX_THREADS];
} weft_tpool_t;

static int run_task(void *payload, weft_worker *self)
{
  const task_t *task = payload;
  task->func(task->args);
  return 0;
}

/// @brief Runs on each thread before its first task
static void place_thread(weft_worker *self, void *context)
{
  const weft_tpool_t *pool = context;
  // threads that a task makes inherit the priority, as with threadCreate(); weft's threads do not pass theirs on
  struct sched_param param;
  int policy;
  if (pthread_getschedparam(pthread_self(), &policy, &param) == 0 && (policy & ~SCHED_RESET_ON_FORK) == SCHED_OAI)
    pthread_setschedparam(pthread_self(), SCHED_OAI, &param);

  const unsigned int idx = weft_worker_index(self);
  if (idx >= pool->num_threads || pool->core_id[idx] < 0)
    return;
  cpu_set_t cpuset;
  CPU_ZERO(&cpuset);
  CPU_SET(pool->core_id[idx], &cpuset);
  int ret = pthread_setaffinity_np(pthread_self(), sizeof(cpuset), &cpuset);
  if (ret != 0)
    LOG_W(UTIL, "thread pool: thread %u cannot have core %d: %s\n", idx, pool->core_id[idx], strerror(ret));
}

void pushTpool(tpool_t *tpool, task_t task)
{
  DevAssert(tpool != NULL);
  DevAssert(task.func != NULL);
  weft_tpool_t *pool = tpool->q_arr;
  if (pool == NULL || weft_submit(pool->weft, &pool->tasks, run_task, &task, sizeof(task)) != WEFT_OK)
    task.func(task.args);
}

static void start_threads(weft_tpool_t *pool, const char *name)
{
  weft_config config;
  weft_config_init(&config);
  config.workers = pool->num_threads;
  config.name = name;
  config.flags = WEFT_POOL_ORDERED | WEFT_POOL_NO_HELP | WEFT_POOL_NO_PLACING;
  config.policy = SCHED_OAI == SCHED_FIFO ? WEFT_POLICY_FIFO : WEFT_POLICY_RR;
  config.priority = OAI_PRIORITY_RT_MAX;
  config.start = place_thread;
  config.context = pool;
  int ret = weft_pool_create(&pool->weft, &config);
  AssertFatal(ret == WEFT_OK, "%s: no %d threads: %s\n", name, pool->num_threads, weft_strerror(ret));
  AssertFatal(weft_pool_workers(pool->weft) == pool->num_threads,
              "%s: %u threads of %d\n",
              name,
              weft_pool_workers(pool->weft),
              pool->num_threads);

  weft_real_time outcome = {.struct_size = sizeof(outcome)};
  weft_pool_real_time(pool->weft, &outcome);
  if (outcome.policy_refused > 0)
    LOG_W(UTIL, "%s: %u of %u threads have default priority: %s\n", name, outcome.policy_refused, weft_pool_workers(pool->weft),
          strerror(outcome.policy_errno));
  else
    LOG_I(UTIL, "%s: %u threads, priority %u\n", name, weft_pool_workers(pool->weft), config.priority);
}

void initNamedTpool(char *params, tpool_t *tpool, bool performanceMeas, char *name)
{
  DevAssert(tpool != NULL);
  memset(tpool, 0, sizeof(*tpool));
  weft_tpool_t *pool = calloc(1, sizeof(*pool));
  AssertFatal(pool != NULL, "Memory exhausted");

  char *saveptr;
  char *parms_cpy = strdup(params);
  AssertFatal(parms_cpy != NULL, "Memory exhausted");
  for (char *cur = strtok_r(parms_cpy, ",", &saveptr); cur != NULL; cur = strtok_r(NULL, ",", &saveptr)) {
    if (toupper(cur[0]) == 'N')
      continue;
    AssertFatal(pool->num_threads < MAX_THREADS, "more than %d threads\n", MAX_THREADS);
    int core_id = atoi(cur);
    AssertFatal(core_id >= -1 && core_id < CPU_SETSIZE, "no core %s\n", cur);
    pool->core_id[pool->num_threads++] = core_id;
  }
  free(parms_cpy);

  if (pool->num_threads == 0) {
    free(pool);
    return;
  }
  start_threads(pool, name == NULL ? "Tpool" : name);
  tpool->len_thr = pool->num_threads;
  tpool->q_arr = pool;
}

void initFloatingCoresTpool(int nbThreads, tpool_t *pool, bool performanceMeas, char *name)
{
  AssertFatal(nbThreads <= MAX_THREADS, "more than %d threads\n", MAX_THREADS);
  char threads[3 * MAX_THREADS + 2] = "n";
  for (int i = 0; i < nbThreads; i++)
    strcpy(threads + 3 * i, "-1,");
  initNamedTpool(threads, pool, performanceMeas, name);
}

void abortTpool(tpool_t *tpool)
{
  weft_tpool_t *pool = tpool->q_arr;
  if (pool == NULL)
    return;
  // everything that was pushed runs, then the threads end
  int ret = weft_pool_destroy(&pool->weft);
  AssertFatal(ret == WEFT_OK, "abortTpool(): %s\n", weft_strerror(ret));
  free(pool);
  tpool->q_arr = NULL;
  tpool->len_thr = 0;
}
