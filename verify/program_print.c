/* program_print.c: a program as C over weft.h and pthreads, to be read, and to be tried apart from the generator. What
 * spec.c would look at is not in it: it prints what the calls return. */
#include "program.h"
#include "weft.h"

#include <string.h>

struct print {
    const struct program *program;
    FILE *file;
    bool used[PROGRAM_BODIES];
};

static const char head[] =
    "#include <pthread.h>\n#include <stdio.h>\n#include <string.h>\n#include <time.h>\n#include <weft.h>\n\n"
    "static weft_pool *pool;\nstatic weft_group shared[4];\nstatic weft_graph *graph[2];\n"
    "static void told(const char *what, int error) { if (error != WEFT_OK) fprintf(stderr, \"%s: %s\\n\", what, "
    "weft_strerror(error)); }\n"
    "static unsigned long long in_ns(unsigned long long ns) {\n    struct timespec t;\n    clock_gettime(CLOCK_MONOTONIC, "
    "&t);\n"
    "    return (unsigned long long)t.tv_sec * 1000000000u + (unsigned long long)t.tv_nsec + ns;\n}\n"
    "static void clean(void *payload, size_t size, void *context) { (void)payload, (void)size, (void)context; }\n"
    "static void tell(void *payload, int result, int has_ended) {\n    (void)payload, (void)has_ended;\n"
    "    told(\"awaited\", result);\n}\n"
    "/* own: the group of the task that runs it, NULL: none */\n"
    "struct job { weft_group *own; unsigned index, levels; };\n\n";

/* ---- names -------------------------------------------------------------------------------------------------------- */

static const char *group_text(uint8_t name) {
    static const char *const texts[GROUP_NAMES] = {"NULL",       "&shared[0]", "&shared[1]", "&shared[2]",
                                                   "&shared[3]", "own",        "&local[0]",  "&local[1]"};
    return texts[name];
}
static const char *moment_text(uint8_t when) {
    static const char *const texts[] = {"0", "1", "in_ns(20000)", "in_ns(3600000000000)"};
    return texts[when];
}
static const char *help_text(uint8_t help) {
    static const char *const texts[] = {"WEFT_HELP_BELOW", "WEFT_HELP_ANY", "WEFT_HELP_NONE"};
    return texts[help];
}

/* What a task, an index, a call or a node runs. */
static void put_body(struct print *print, uint8_t body) {
    if (body == NO_BODY)
        fputs("", print->file);
    else
        fprintf(print->file, "body_%u(self, job.own); ", body);
}

/* ---- functions ---------------------------------------------------------------------------------------------------- */

static bool is_object(const struct op *op) {
    return op->kind == OP_OBJECT || op->kind == OP_AFTER_OBJECT || op->kind == OP_AWAIT;
}

/* The function that the operation's tasks, indices or calls run. */
static void put_function(struct print *print, uint32_t body, uint32_t index, const struct op *op) {
    FILE *file = print->file;
    switch (op->kind) {
    case OP_SUBMIT:
    case OP_CHILD:
    case OP_OBJECT:
    case OP_RUN:
    case OP_AFTER:
    case OP_AFTER_OBJECT:
    case OP_AWAIT:
        fprintf(file, "static int task_%u_%u(void *payload, weft_worker *self) {\n", body, index);
        fputs("    struct job job;\n    (void)self;\n", file);
        if (is_object(op)) fputs("    if (self == NULL) return 0;\n", file);
        fputs("    memcpy(&job, payload, sizeof job);\n    ", file);
        put_body(print, op->body);
        fprintf(file, "return %s%u%s;\n}\n", op->fails < op->count ? "job.index == " : "",
                op->fails < op->count ? op->fails : 0u, op->fails < op->count ? " ? 1 : 0" : "");
        break;
    case OP_NEST:
        fprintf(file,
                "static int task_%u_%u(void *payload, weft_worker *self) {\n    struct job job;\n"
                "    weft_group inner = WEFT_GROUP_INIT;\n    (void)self;\n    memcpy(&job, payload, sizeof job);\n"
                "    if (job.levels > 0) {\n        struct job next = {&inner, 0, job.levels - 1};\n"
                "        told(\"submit\", weft_submit(pool, &inner, task_%u_%u, &next, sizeof next));\n"
                "        told(\"wait\", weft_group_wait(pool, &inner));\n        return 0;\n    }\n    ",
                body, index, body, index);
        put_body(print, op->body);
        fputs("return 0;\n}\n", file);
        break;
    case OP_FOR:
    case OP_REDUCE:
    case OP_TILES:
        fprintf(file,
                "static int loop_%u_%u(size_t begin, size_t end, void *context, weft_worker *self) {\n"
                "    struct job job = {*(weft_group **)context, 0, 0};\n    (void)self, (void)job;\n"
                "    for (size_t i = begin; i < end; i++) {\n        ",
                body, index);
        put_body(print, op->body);
        fprintf(file, "if (i == %u) return %u;\n    }\n    return 0;\n}\n", op->fails, op->code);
        if (op->kind == OP_REDUCE)
            fprintf(file,
                    "static int leaf_%u_%u(size_t begin, size_t end, void *value, void *context, weft_worker *self) {\n"
                    "    *(unsigned long long *)value = begin * 1000003 + end;\n    return loop_%u_%u(begin, end, context, "
                    "self);\n}\n"
                    "static void combine_%u_%u(void *left, const void *right, void *context) {\n    (void)context;\n"
                    "    *(unsigned long long *)left = *(unsigned long long *)left * 31 + *(const unsigned long long "
                    "*)right;\n}\n",
                    body, index, body, index, body, index);
        break;
    case OP_FORK:
        fprintf(file,
                "struct call_%u_%u { unsigned depth; weft_group *own; };\n"
                "static int call_%u_%u(weft_fork_slot *here, struct call_%u_%u call);\nWEFT_FORK(call_%u_%u, int, struct "
                "call_%u_%u)\n"
                "static int call_%u_%u(weft_fork_slot *here, struct call_%u_%u call) {\n"
                "    weft_worker *self = weft_fork_worker(here);\n    struct job job = {call.own, 0, 0};\n    (void)self, "
                "(void)job;\n"
                "    if (call.depth == 0) {\n        ",
                body, index, body, index, body, index, body, index, body, index, body, index, body, index);
        put_body(print, op->body);
        fprintf(file,
                "return 1;\n    }\n    struct call_%u_%u left = {call.depth - 1, call.own}, right = {call.depth > 1 ? "
                "call.depth - 2 : 0, call.own};\n"
                "    weft_fork_slot *deeper = call_%u_%u_fork(here, &left);\n    int leaves = call_%u_%u(deeper, right);\n"
                "    return leaves + call_%u_%u_join(here, &left);\n}\n",
                body, index, body, index, body, index, body, index);
        break;
    default: break;
    }
}

/* ---- operations --------------------------------------------------------------------------------------------------- */

static void put_submit(struct print *print, uint32_t body, uint32_t index, const struct op *op) {
    FILE *file = print->file;
    const char *own = op->kind == OP_CHILD ? "own" : group_text(op->group);
    fprintf(file, "    /* %s, payloads of %u bytes%s */\n", op_name(op->kind), op->size,
            op->has_block ? " and a block of the heap" : "");
    if (op->kind != OP_NEST) fprintf(file, "    for (unsigned i = 0; i < %u; i++) ", op->count);
    fprintf(file, "{\n        struct job job = {%s, %s, %u};\n", own, op->kind == OP_NEST ? "0" : "i",
            op->kind == OP_NEST ? op->count : 0);
    if (op->size > sizeof(uint64_t) * 2)
        fprintf(file, "        char payload[%u] = {0};\n        memcpy(payload, &job, sizeof job);\n",
                op->size < 16 ? 16u : op->size);
    const char *payload = op->size > 16 ? "payload" : "&job", *size = op->size > 16 ? "sizeof payload" : "sizeof job";
    const char *group = group_text(op->group);
    if (op->kind == OP_CHILD)
        fprintf(file, "        told(\"child\", weft_submit_child(self, task_%u_%u, %s, %s));\n", body, index, payload, size);
    else if (op->kind == OP_RUN)
        fprintf(file, "        told(\"run\", weft_run(pool, %s, task_%u_%u, %s));\n", group, body, index, payload);
    else if (op->kind == OP_AFTER)
        fprintf(file, "        told(\"after\", weft_submit_after(pool, (weft_after){%s, %s}, task_%u_%u, %s, %s));\n",
                group_text(op->after), group, body, index, payload, size);
    else if (op->kind == OP_OBJECT)
        fprintf(file,
                "        weft_object type = {%s, task_%u_%u, NULL};\n        told(\"object\", weft_submit_object(pool, %s, "
                "&type, %s));\n",
                size, body, index, group, payload);
    else if (op->kind == OP_AFTER_OBJECT)
        fprintf(file,
                "        weft_object type = {sizeof job, task_%u_%u, NULL};\n"
                "        told(\"after object\", weft_submit_after_object(pool, (weft_after){%s, %s}, &type, &job));\n",
                body, index, group_text(op->after), group);
    else if (op->kind == OP_AWAIT)
        fprintf(file,
                "        weft_object type = {%s, task_%u_%u, NULL};\n"
                "        int error = weft_submit_await(pool, (weft_after){%s, %s}, &type, %s, tell);\n"
                "        if (error != 1) told(\"await\", error); /* 1: it has finished */\n",
                size, body, index, group_text(op->after), group, payload);
    else
        fprintf(file, "        told(\"submit\", weft_submit(pool, %s, task_%u_%u, %s, %s));\n", group, body, index, payload,
                size);
    fputs("    }\n", file);
}

static void put_loop(struct print *print, uint32_t body, uint32_t index, const struct op *op) {
    FILE *file = print->file;
    if (op->kind == OP_REDUCE)
        fprintf(file,
                "    {\n        unsigned long long result;\n        weft_reduction how = {sizeof result, leaf_%u_%u, "
                "combine_%u_%u, NULL, &own};\n"
                "        told(\"reduce\", weft_reduce(pool, (weft_range){0, %u, %u}, &how, &result));\n    }\n",
                body, index, body, index, op->count, op->grain);
    else if (op->kind == OP_FORK)
        fprintf(file,
                "    {\n        weft_fork_slot *here;\n        told(\"enter\", weft_fork_enter(pool, &here));\n"
                "        call_%u_%u(here, (struct call_%u_%u){%u, own});\n        weft_fork_leave(here);\n    }\n",
                body, index, body, index, op->count);
    else
        fprintf(file, "    told(\"for\", weft_for(pool, (weft_range){0, %u, %u}, loop_%u_%u, &own));%s\n", op->count,
                op->grain, body, index, op->kind == OP_TILES ? " /* as weft_for_tiles, rows of 3 columns */" : "");
}

static void put_op(struct print *print, uint32_t body, uint32_t index, const struct op *op) {
    FILE *file = print->file;
    const char *group = group_text(op->group);
    switch (op->kind) {
    case OP_WAIT:
        fprintf(file, "    told(\"wait\", weft_group_wait_until(pool, %s, %s, %s));\n", group, help_text(op->help),
                moment_text(op->when));
        break;
    case OP_CANCEL: fprintf(file, "    told(\"cancel\", weft_group_cancel(pool, %s));\n", group); break;
    case OP_BOOST: fprintf(file, "    told(\"boost\", weft_group_boost(pool, %s));\n", group); break;
    case OP_DEADLINE:
        fprintf(file, "    told(\"deadline\", weft_group_deadline(pool, %s, %s));\n", group, moment_text(op->when));
        break;
    case OP_FOR:
    case OP_TILES:
    case OP_REDUCE:
    case OP_FORK: put_loop(print, body, index, op); break;
    case OP_GRAPH: fprintf(file, "    told(\"graph run\", weft_graph_run(pool, graph[%u]));\n", op->graph); break;
    case OP_GRAPH_CANCEL:
        fprintf(file, "    told(\"graph cancel\", weft_graph_cancel(pool, graph[%u]));\n", op->graph);
        break;
    case OP_BLOCK:
        fputs("    if (self != NULL) told(\"block\", weft_block_begin(self)), told(\"block\", weft_block_end(self));\n",
              file);
        break;
    case OP_SUBMIT:
    case OP_CHILD:
    case OP_OBJECT:
    case OP_RUN:
    case OP_AFTER:
    case OP_AFTER_OBJECT:
    case OP_AWAIT:
    case OP_NEST: put_submit(print, body, index, op); break;
    default:
        fprintf(file, "    /* %s, variant %u, %u times: see play_more.c, play_heap.c */\n", op_name(op->kind), op->how,
                op->count);
        break;
    }
}

static bool uses_local(const struct body *body, uint32_t which) {
    for (uint32_t i = 0; i < body->count; i++) {
        const struct op *op = &body->ops[i];
        if (!op->is_absent && (op->group == GROUP_LOCAL + which || op->after == GROUP_LOCAL + which)) return true;
    }
    return false;
}

/* What it runs first, then itself. */
static void put_whole(struct print *print, uint8_t index) {
    const struct body *body = &print->program->body[index];
    FILE *file = print->file;
    if (index == NO_BODY || print->used[index]) return;
    print->used[index] = true;
    for (uint32_t i = 0; i < body->count; i++)
        if (!body->ops[i].is_absent && body->ops[i].body != NO_BODY) put_whole(print, body->ops[i].body);
    for (uint32_t i = 0; i < body->count; i++)
        if (!body->ops[i].is_absent) put_function(print, index, i, &body->ops[i]);
    fprintf(file, "static void body_%u(weft_worker *self, weft_group *own) {\n", index);
    fprintf(file, "    weft_group local[2] = {{0, %u, 0}, {0, %u, 0}};\n    (void)self, (void)own, (void)local;\n",
            body->local_flags[0], body->local_flags[1]);
    for (uint32_t i = 0; i < body->count; i++)
        if (!body->ops[i].is_absent) put_op(print, index, i, &body->ops[i]);
    for (uint32_t i = 0; i < 2; i++)
        if (uses_local(body, i)) fprintf(file, "    told(\"wait at the end\", weft_group_wait(pool, &local[%u]));\n", i);
    fputs("}\n\n", file);
}

/* ---- the whole ---------------------------------------------------------------------------------------------------- */

static bool uses_graphs(const struct program *program, const struct print *print) {
    for (uint32_t b = 0; b < program->bodies; b++)
        for (uint32_t i = 0; print->used[b] && i < program->body[b].count; i++) {
            const struct op *op = &program->body[b].ops[i];
            if (!op->is_absent && (op->kind == OP_GRAPH || op->kind == OP_GRAPH_CANCEL)) return true;
        }
    return false;
}

static void put_graph(struct print *print, uint32_t index) {
    const struct program_graph *graph = &print->program->graph[index];
    FILE *file = print->file;
    for (uint32_t i = 0; i < graph->nodes; i++) {
        fprintf(file,
                "static int node_%u_%u(void *context, weft_worker *self) {\n    struct job job = {NULL, 0, 0};\n    "
                "(void)context, (void)self, (void)job;\n    ",
                index, i);
        put_body(print, graph->body[i]);
        fprintf(file, "return %u;\n}\n", graph->code[i]);
    }
    fprintf(
        file,
        "static void make_graph_%u(void) {\n    weft_node node[%u];\n    told(\"graph\", weft_graph_create(&graph[%u]));\n",
        index, graph->nodes, index);
    for (uint32_t i = 0; i < graph->nodes; i++)
        fprintf(file, "    told(\"add\", weft_graph_add(graph[%u], &node[%u], node_%u_%u, NULL));\n", index, i, index, i);
    for (uint32_t i = 0; i < graph->edges; i++)
        fprintf(file, "    told(\"edge\", weft_graph_edge(graph[%u], node[%u], node[%u]));\n", index, graph->edge[i].before,
                graph->edge[i].after);
    fprintf(file, "    told(\"build\", weft_graph_build(graph[%u], NULL));\n}\n\n", index);
}

static void put_pool(struct print *print, uint32_t index) {
    const struct program_pool *pool = &print->program->pool[index];
    FILE *file = print->file;
    fprintf(file, "    { /* pool %u */\n        weft_config config;\n        weft_config_init(&config);\n", index);
    fprintf(file, "        config.workers = %u;\n        config.spares = %u;\n        config.flags = %u;\n", pool->workers,
            pool->spares, pool->flags);
    fprintf(file, "        config.queue_max = %llu;\n        config.full = %u;\n", (unsigned long long)pool->queue_max,
            pool->full);
    fprintf(file, "        config.spin_ns = %lld;\n        config.background_max = %u;\n        config.clean = clean;\n",
            (long long)pool->spin_ns, pool->background_max);
    fputs("        told(\"create\", weft_pool_create(&pool, &config));\n", file);
    for (uint32_t i = 0; i < PROGRAM_SHARED; i++)
        fprintf(file,
                "        if (shared[%u].id != 0) told(\"stale\", weft_group_wait(pool, &shared[%u])); /* or another call: "
                "%u */\n"
                "        shared[%u] = (weft_group){0, %u, 0};\n",
                i, i, pool->stale_op, i, pool->shared_flags[i]);
    for (uint32_t i = 0; i < pool->threads; i++)
        fprintf(file, "        pthread_t thread_%u;\n        pthread_create(&thread_%u, NULL, thread_body_%u, NULL);\n", i,
                i, pool->body[i]);
    for (uint32_t i = 0; i < pool->threads; i++) fprintf(file, "        pthread_join(thread_%u, NULL);\n", i);
    if (pool->end == END_WAITED)
        fputs("        for (int round = 0; round < 5; round++) { /* as long as tasks submit others */\n            "
              "told(\"wait\", weft_group_wait(pool, NULL));\n"
              "            for (int i = 0; i < 4; i++) told(\"wait\", weft_group_wait(pool, &shared[i]));\n        }\n",
              file);
    fprintf(file, "        told(\"end\", %s);\n    }\n",
            pool->end == END_ABORTED ? "weft_pool_abort(&pool, clean, NULL)" : "weft_pool_destroy(&pool)");
}

void program_print(const struct program *program, FILE *file) {
    struct print print = {.program = program, .file = file};
    fprintf(file, "/* program %llu */\n%s", (unsigned long long)program->seed, head);
    for (uint32_t i = 0; i < program->pools; i++)
        for (uint32_t k = 0; k < program->pool[i].threads; k++) put_whole(&print, program->pool[i].body[k]);
    bool has_graphs = uses_graphs(program, &print);
    for (uint32_t i = 0; has_graphs && i < PROGRAM_GRAPHS; i++) {
        for (uint32_t k = 0; k < program->graph[i].nodes; k++)
            if (program->graph[i].body[k] != NO_BODY) put_whole(&print, program->graph[i].body[k]);
        put_graph(&print, i);
    }
    for (uint32_t i = 0; i < program->pools; i++)
        for (uint32_t k = 0; k < program->pool[i].threads; k++) {
            uint8_t body = program->pool[i].body[k];
            fprintf(file, "static void *thread_body_%u(void *none) {\n    body_%u(NULL, NULL);\n    return none;\n}\n", body,
                    body);
        }
    fputs("\nint main(void) {\n", file);
    for (uint32_t i = 0; has_graphs && i < PROGRAM_GRAPHS; i++) fprintf(file, "    make_graph_%u();\n", i);
    for (uint32_t i = 0; i < program->pools; i++) put_pool(&print, i);
    for (uint32_t i = 0; has_graphs && i < PROGRAM_GRAPHS; i++) fprintf(file, "    weft_graph_destroy(&graph[%u]);\n", i);
    fputs("    return 0;\n}\n", file);
}
