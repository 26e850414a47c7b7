#include "program.h"
void program_print(const struct program *p, FILE *f) {
    for (int i = 0; i < p->pools; i++) {
        fprintf(f, "pool %d workers %u spares %u flags %u queue_max %u full %u bg %u end %u threads", i, p->pool[i].workers, p->pool[i].spares, p->pool[i].flags, (unsigned)p->pool[i].queue_max, p->pool[i].full, p->pool[i].background_max, p->pool[i].end);
        for (int k = 0; k < p->pool[i].threads; k++) fprintf(f, " %u", p->pool[i].body[k]);
        fprintf(f, " shared flags"); for (int k = 0; k < 4; k++) fprintf(f, " %u", p->pool[i].shared_flags[k]);
        fprintf(f, " stale %u\n", p->pool[i].stale_op);
    }
    for (int i = 0; i < p->graphs; i++) {
        fprintf(f, "graph %d: nodes", i);
        for (int k = 0; k < p->graph[i].nodes; k++) fprintf(f, " %u/%u", p->graph[i].body[k], p->graph[i].code[k]);
        for (int k = 0; k < p->graph[i].edges; k++) fprintf(f, " %u->%u", p->graph[i].edge[k].before, p->graph[i].edge[k].after);
        fprintf(f, "\n");
    }
    for (int i = 0; i < p->bodies; i++) {
        bool any = false;
        for (int k = 0; k < p->body[i].count; k++) any |= !p->body[i].ops[k].is_absent;
        if (!any) continue;
        fprintf(f, "body %d flags %u %u\n", i, p->body[i].local_flags[0], p->body[i].local_flags[1]);
        for (int k = 0; k < p->body[i].count; k++) {
            const struct op *o = &p->body[i].ops[k];
            if (!o->is_absent) fprintf(f, "    %s group %u after %u help %u when %u body %u graph %u how %u count %u size %u grain %u fails %u code %u block %d\n", op_name(o->kind), o->group, o->after, o->help, o->when, o->body, o->graph, o->how, o->count, o->size, o->grain, o->fails, o->code, o->has_block);
        }
    }
}
