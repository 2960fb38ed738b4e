/* The "mig" line: profiles, placement, instances. */
#define _GNU_SOURCE
#include "lines.h"

#include <stdio.h>
#include <string.h>

/* Finds a start for each instance from the one with most memory on, first fit with backtracking;
 * the starts allowed are NVIDIA's: multiples of the size with enough compute slices behind. */
static bool place(const gpusim_model *m, gpusim_gi *gi, const unsigned *order, unsigned count, unsigned taken)
{
    if (count == 0) {
        return true;
    }
    gpusim_gi *i = &gi[order[0]];
    unsigned size = i->profile->mem_slices;
    for (unsigned start = 0; start + size <= m->mem_slices && start + i->profile->slices <= m->slices; start += size) {
        unsigned mask = ((1u << size) - 1) << start;
        if ((taken & mask) == 0 && place(m, gi, order + 1, count - 1, taken | mask)) {
            i->placement = start;
            i->nvml_id = m->mem_slices / size - 1 + start / size;
            return true;
        }
    }
    return false;
}

static int read_compute_instances(const words *w, char *list, gpusim_gi *gi)
{
    unsigned used = 0;
    for (char *item; (item = strsep(&list, "+")) != NULL;) {
        unsigned slices;
        char unit, rest;
        if (sscanf(item, "%u%c%c", &slices, &unit, &rest) != 2 || unit != 'c' || slices == 0) {
            return gpusim_refuse(w, "compute instance is \"%s\", want 1c, 2c, ..", item);
        }
        used = slices > gi->profile->slices ? slices : used + slices;
        if (used > gi->profile->slices) {
            return gpusim_refuse(w, "compute instances of %s take %u slices of %u", gi->profile->name, used, gi->profile->slices);
        }
        gi->ci[gi->ci_count++] = (gpusim_ci){ .slices = slices };
    }
    return 0;
}

/* PROFILE[*N][/1c+2c..] */
static int read_instances(const words *w, const gpusim_model *m, char *spec, gpusim_epoch *e)
{
    char *cis = strchr(spec, '/'), *times = strchr(spec, '*');
    int64_t n = 1;
    if (cis != NULL) {
        *cis++ = '\0';
    }
    if (times != NULL) {
        *times++ = '\0';
        if (gpusim_read_integer(w, "number of instances", times, 1, GPUSIM_MAX_GI, &n) != 0) {
            return -1;
        }
    }
    const gpusim_profile *p = gpusim_find_profile(m, spec);
    if (p == NULL) {
        return gpusim_refuse(w, "profile is \"%s\", which %s doesn't have", spec, m->name);
    }
    for (; n > 0; n--) {
        if (e->gi_count == GPUSIM_MAX_GI) {
            return gpusim_refuse(w, "more than %d GPU instances", GPUSIM_MAX_GI);
        }
        gpusim_gi *gi = &e->gi[e->gi_count];
        *gi = (gpusim_gi){ .profile = p, .index = e->gi_count++ };
        char list[64];
        snprintf(list, sizeof list, "%s", cis == NULL ? "" : cis);
        if (cis == NULL) {
            gi->ci[gi->ci_count++] = (gpusim_ci){ .slices = p->slices };
        } else if (read_compute_instances(w, list, gi) != 0) {
            return -1;
        }
    }
    return 0;
}

/* Names, activities and positions of new instances. NVIDIA's MIG UUIDs are derived from their
 * names (version 5), so that the same instance made again has the same one. */
static void finish_instances(const gpusim_gpu_t *g, gpusim_epoch *e)
{
    unsigned index = 0;
    for (unsigned i = 0; i < e->gi_count; i++) {
        gpusim_gi *gi = &e->gi[i];
        gi->created_us = gpusim_S.now_us;
        for (unsigned k = 0; k < gi->ci_count; k++) {
            gpusim_ci *ci = &gi->ci[k];
            uint64_t name = ((uint64_t)g->id << 32) | (gi->nvml_id << 16) | k;
            uint64_t h = gpusim_hash(gpusim_S.seed ^ UINT64_C(0x4d4947), name);
            ci->nvml_id = k;
            ci->index = index++;
            ci->sms = gi->profile->sms * ci->slices / gi->profile->slices;
            ci->created_us = gpusim_S.now_us;
            gpusim_format_uuid(ci->uuid, "MIG-", gpusim_S.seed ^ UINT64_C(0x4d4947), name, 5);
            ci->activity = (gpusim_activity){ .base = 0.2 + 0.5 * (double)(h >> 60) / 16, .amp = 0.2, .period_s = 300,
                                              .phase = (double)((h >> 32) & 0xff) / 41 };
        }
    }
}

static int plan_mig(const words *w, const gpusim_gpu_t *g, gpusim_epoch *e)
{
    unsigned order[GPUSIM_MAX_GI], compute = 0, cis = 0;
    e->gi_count = 0;
    e->mig = true;
    for (int i = 2; i < w->count; i++) {
        char spec[64];
        snprintf(spec, sizeof spec, "%s", w->word[i]);
        if (read_instances(w, g->model, spec, e) != 0) {
            return -1;
        }
    }
    for (unsigned i = 0; i < e->gi_count; i++) {
        unsigned k = i;
        for (; k > 0 && e->gi[order[k - 1]].profile->mem_slices < e->gi[i].profile->mem_slices; k--) {
            order[k] = order[k - 1];
        }
        order[k] = i;
        compute += e->gi[i].profile->slices;
        cis += e->gi[i].ci_count;
    }
    if (compute > g->model->slices || cis > GPUSIM_MAX_CI || !place(g->model, e->gi, order, e->gi_count, 0)) {
        return gpusim_refuse(w, "these instances don't fit on a %s", g->model->name);
    }
    finish_instances(g, e);
    return 0;
}

int gpusim_do_mig(const words *w)
{
    target t;
    if (gpusim_read_target(w, w->word[1], false, &t) != 0) {
        return -1;
    }
    bool off = w->count == 3 && strcmp(w->word[2], "off") == 0;
    bool none = w->count == 3 && strcmp(w->word[2], "on") == 0; /* MIG mode without instances */
    EACH_GPU(t, g) {
        gpusim_epoch next = *gpusim_epoch_now(g);
        next.mig = !off;
        next.gi_count = 0;
        if (g->model->slices == 0) {
            return gpusim_refuse(w, "%s has no MIG", g->model->name);
        }
        if (!off && !none && plan_mig(w, g, &next) != 0) {
            return -1;
        }
        next.from_us = gpusim_S.now_us;
        *gpusim_new_epoch(g) = next;
    }
    return 0;
}
