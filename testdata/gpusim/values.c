/* Field by field: what the model says. */
#include "engine.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void blank_reading(reading *r, unsigned short field, int kind, int status, int64_t ts)
{
    static const char *strings[] = { DCGM_STR_BLANK, DCGM_STR_NOT_FOUND, DCGM_STR_NOT_SUPPORTED, DCGM_STR_NOT_PERMISSIONED };
    const dcgm_field_meta_t *m = field_meta(field);
    memset(r, 0, sizeof *r);
    r->type = m == NULL ? DCGM_FT_INT64 : m->fieldType;
    r->status = status;
    r->ts = ts;
    r->i64 = DCGM_INT64_BLANK + kind;
    r->dbl = DCGM_FP64_BLANK + kind;
    snprintf(r->str, sizeof r->str, "%s", strings[kind]);
}

/* --- identity -------------------------------------------------------------------------------- */

static const char *brand(const gpusim_model *m)
{
    return strncmp(m->name, "Tesla", 5) == 0 ? "Tesla" : strstr(m->name, "GeForce") != NULL ? "GeForce" : "NVIDIA";
}

static void write_name(const place *p, const gpusim_gi *gi, const gpusim_ci *ci, char *out, size_t size)
{
    if (p->fake) {
        snprintf(out, size, "%s", p->ci >= 0 ? "1fc.1g.4gb" : p->gi >= 0 ? "1fg.4gb" : "Fake GPU");
    } else if (ci != NULL) {
        snprintf(out, size, "%uc.%s", ci->slices, gi->profile->name);
    } else {
        snprintf(out, size, "%s", gi != NULL ? gi->profile->name : p->gpu->model->name);
    }
}

static bool string_value(const place *p, const gpusim_epoch *e, unsigned short field, char *out, size_t size)
{
    const gpusim_gpu_t *g = p->gpu;
    const gpusim_gi *gi = gpusim_find_gi(e, p->gi);
    const gpusim_ci *ci = gpusim_find_ci(gi, p->ci);
    if (gi != NULL && ci == NULL && gi->ci_count > 0 && field == 54) {
        ci = &gi->ci[0];
    }
    switch (field) {
    case 50: write_name(p, gi, ci, out, size); return true;
    case 51: snprintf(out, size, "%s", brand(g->model)); return true;
    case 53: snprintf(out, size, "%s", g->serial); return true;
    case 54: snprintf(out, size, "%s", ci != NULL ? ci->uuid : g->uuid); return gi == NULL || ci != NULL;
    case 56: snprintf(out, size, "2.1"); return true;
    case 57: snprintf(out, size, "%s", g->pci_bus_id); return true;
    case 80: snprintf(out, size, "7.16"); return e->ecc;
    case 82: snprintf(out, size, "G520.0200.00.05"); return true;
    case 85: snprintf(out, size, "96.00.%02X.00.01", g->model->pcie_gen); return true;
    default: return false;
    }
}

/* --- doubles ------------------------------------------------------------------------------------ */

static bool profiling_unit(unsigned short field, gpusim_unit *unit, double *factor)
{
    static const struct {
        unsigned short field;
        gpusim_unit unit;
        double factor;
    } units[] = {
        { 1001, GPUSIM_GR, 1 },   { 1002, GPUSIM_SM, 1 },     { 1003, GPUSIM_OCCUPANCY, 1 }, { 1004, GPUSIM_TENSOR, 1 },
        { 1005, GPUSIM_DRAM, 1 }, { 1006, GPUSIM_FP64, 1 },   { 1007, GPUSIM_FP32, 1 },      { 1008, GPUSIM_FP16, 1 },
        { 1013, GPUSIM_TENSOR, 0 }, { 1014, GPUSIM_TENSOR, 0.9 }, { 1015, GPUSIM_TENSOR, 0.1 }, { 1016, GPUSIM_INT, 1 },
    };
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (units[i].field == field) {
            *unit = units[i].unit;
            *factor = units[i].factor;
            return true;
        }
    }
    return false;
}

static bool double_value(const place *p, unsigned short field, int64_t t, int64_t interval, double *out)
{
    gpusim_unit unit;
    double factor;
    if (profiling_unit(field, &unit, &factor)) {
        *out = factor * gpusim_unit_share(unit) * gpusim_activity_mean(p->gpu, p->gi, p->ci, t - interval, t);
        return true;
    }
    switch (field) {
    case 155: *out = gpusim_energy_between_mj(p->gpu, t - 1000000, t) / 1e3; return true; /* the driver's mean of 1 s */
    case 157: *out = gpusim_power_w(p->gpu, t); return true;
    case 160:
    case 162:
    case 163:
    case 164: *out = p->gpu->model->max_w; return true;
    case 161: *out = floor(p->gpu->model->max_w / 3.5); return true;
    case 254: *out = (double)gpusim_fb_used_mib(p->gpu, p->gi, t) / gpusim_fb_total_mib(p->gpu, p->gi, t); return true;
    default: return false;
    }
}

/* --- integers -------------------------------------------------------------------------------------- */

/* Cycles of all SMs in which a unit was busy since from. */
static int64_t cycles(const place *p, int64_t from, int64_t t, double share)
{
    double seconds = (double)(t - from) / 1e6;
    double busy = share * gpusim_activity_mean(p->gpu, GPUSIM_WHOLE, GPUSIM_WHOLE, from, t);
    return (int64_t)(seconds * p->gpu->model->sm_clock_mhz * 1e6 * p->gpu->model->sms * busy);
}

static bool identity_int(const place *p, const gpusim_epoch *e, unsigned short field, int64_t *out)
{
    const gpusim_model *m = p->gpu->model;
    switch (field) {
    case 52: *out = p->gpu->id; return true;
    case 55: *out = p->gpu->minor; return true;
    case 58: *out = m->pci_device_id; return true;
    case 59: *out = 0x16c110de; return true;
    case 63: *out = ((int64_t)m->cc_major << 16) | m->cc_minor; return true;
    case 65: *out = 0; return true;
    case 66: *out = e->persistence; return true;
    case 67: *out = e->mig; return m->slices > 0;
    case 69: *out = m->slices; return m->slices > 0;
    case 70: *out = p->gpu->id < 4 ? 0x00ffffff : 0x00ffffff000000; return true;
    case 71:
    case 72:
    case 73: *out = 0; return true;
    case 83: *out = 0x5e3a1b20 + p->gpu->id; return true;
    case 84: *out = 1; return true;
    case 90: *out = 131072; return true;
    case 92: *out = 1; return true;
    case 93: *out = 131071; return true;
    case 94: *out = m->gpm; return true;
    case 235:
    case 237: *out = m->pcie_gen; return true;
    case 236:
    case 238: *out = 16; return true;
    case 300:
    case 301: *out = e->ecc; return true;
    case 500: *out = 0; return true;
    default: return false;
    }
}

static bool state_int(const place *p, const gpusim_epoch *e, unsigned short field, int64_t t, int64_t *out)
{
    const gpusim_model *m = p->gpu->model;
    double a = gpusim_activity_mean(p->gpu, GPUSIM_WHOLE, GPUSIM_WHOLE, t, t);
    switch (field) {
    case 100: *out = a > 0 ? m->sm_clock_mhz : m->idle_clock_mhz; return true;
    case 101: *out = m->mem_clock_mhz; return true;
    case 102: *out = a > 0 ? m->sm_clock_mhz * 8 / 10 : m->idle_clock_mhz; return true;
    case 110:
    case 113: *out = m->sm_clock_mhz; return true;
    case 111:
    case 114: *out = m->mem_clock_mhz; return true;
    case 112: *out = a > 0 ? 0 : DCGM_CLOCKS_EVENT_REASON_GPU_IDLE; return true;
    case 140: *out = lround(gpusim_temperature_c(p->gpu, t)) + 8; return true;
    case 150: *out = lround(gpusim_temperature_c(p->gpu, t)); return true;
    case 151: *out = 95; return true;
    case 152: *out = 87; return true;
    case 153: *out = 87 - lround(gpusim_temperature_c(p->gpu, t)); return true;
    case 158: *out = 89; return true;
    case 159: *out = 92; return true;
    case 156: *out = (int64_t)gpusim_energy_counter_mj(p->gpu, t); return true;
    case 190: *out = 0; return true;
    case 200: *out = (int64_t)(gpusim_pcie_bytes_per_s(p->gpu, true, t, t) / 1e3); return true;
    case 201: *out = (int64_t)(gpusim_pcie_bytes_per_s(p->gpu, false, t, t) / 1e3); return true;
    case 203: *out = gpusim_util_percent(p->gpu, t); return !e->mig || e->util_percent >= 0; /* NVML has none with MIG */
    case 204: *out = gpusim_mem_util_percent(p->gpu, t); return !e->mig;
    case 206:
    case 207: *out = 0; return !e->mig;
    case 250: *out = gpusim_fb_total_mib(p->gpu, p->gi, t); return true;
    case 251: *out = (int64_t)gpusim_fb_total_mib(p->gpu, p->gi, t) - gpusim_fb_used_mib(p->gpu, p->gi, t); return true;
    case 252: *out = gpusim_fb_used_mib(p->gpu, p->gi, t); return true;
    case 253: *out = 512; return true;
    case 1523: *out = e->row_remap_failed ? 4 : e->lost ? 1 : 0; return true;
    default: return false;
    }
}

static bool counter_int(const place *p, const gpusim_epoch *e, unsigned short field, int64_t t, int64_t *out)
{
    const gpusim_gpu_t *g = p->gpu;
    switch (field) {
    case 202: *out = (int64_t)gpusim_event_count(g, GPUSIM_REPLAY, false, t); return true;
    case 310:
    case 318: *out = (int64_t)gpusim_event_count(g, GPUSIM_SBE, false, t); return e->ecc;
    case 311:
    case 319: *out = (int64_t)gpusim_event_count(g, GPUSIM_DBE, false, t); return e->ecc;
    case 312:
    case 328: *out = (int64_t)gpusim_event_count(g, GPUSIM_SBE, true, t); return e->ecc;
    case 313:
    case 329: *out = (int64_t)gpusim_event_count(g, GPUSIM_DBE, true, t); return e->ecc;
    case 393: *out = (int64_t)gpusim_event_count(g, GPUSIM_REMAP_UNCORRECTABLE, true, t); break;
    case 394: *out = (int64_t)gpusim_event_count(g, GPUSIM_REMAP_CORRECTABLE, true, t); break;
    case 395: *out = e->row_remap_failed; break;
    case 396: *out = 0; break;
    default:
        *out = 0; /* violations, caches' ECC and NVLink's error counters stay at zero */
        return (field >= 240 && field <= 247) || (field >= 314 && field <= 345 && e->ecc) ||
               (g->model->nvlinks > 0 && ((field >= 400 && field <= 439) || (field >= 451 && field <= 474) || (field >= 481 && field <= 493) || (field >= 497 && field <= 499)));
    }
    return g->model->cc_major >= 8 && e->gi_count == 0; /* remapped rows: not with instances */
}

/* Rates and byte counters of PCIe and NVLink, and the cycle counters since the last restart. */
static bool traffic_int(const place *p, const gpusim_epoch *e, unsigned short field, int64_t t, int64_t interval, int64_t *out)
{
    const gpusim_gpu_t *g = p->gpu;
    int64_t from = e->counters_from_us;
    double seconds = (double)(t - from) / 1e6;
    switch (field) {
    case 449: *out = (int64_t)((gpusim_nvlink_bytes_per_s(g, true, t - interval, t) + gpusim_nvlink_bytes_per_s(g, false, t - interval, t)) / 1e6); return g->model->nvlinks > 0;
    case 843: *out = (int64_t)(gpusim_nvlink_bytes_per_s(g, true, t - interval, t) / 1e3); return g->model->nvlinks > 0;
    case 897: *out = (int64_t)(gpusim_nvlink_bytes_per_s(g, false, t - interval, t) / 1e3); return g->model->nvlinks > 0;
    case 1009:
    case 1010: *out = (int64_t)gpusim_pcie_bytes_per_s(g, field == 1009, t - interval, t); return true;
    case 1011:
    case 1012: *out = (int64_t)gpusim_nvlink_bytes_per_s(g, field == 1011, t - interval, t); return g->model->nvlinks > 0;
    case 1084: *out = (int64_t)(seconds * g->model->sm_clock_mhz * 1e6 * g->model->sms); return g->model->gpm;
    case 1085: *out = cycles(p, from, t, gpusim_unit_share(GPUSIM_SM)); return g->model->gpm;
    case 1086: *out = cycles(p, from, t, gpusim_unit_share(GPUSIM_TENSOR)); return g->model->gpm;
    case 1088: *out = cycles(p, from, t, 0.9 * gpusim_unit_share(GPUSIM_TENSOR)); return g->model->gpm;
    case 1091:
    case 1092: *out = (int64_t)(seconds * gpusim_pcie_bytes_per_s(g, field == 1091, from, t)); return g->model->gpm;
    case 1093: *out = cycles(p, from, t, gpusim_unit_share(GPUSIM_INT)); return g->model->gpm;
    case 1094: *out = cycles(p, from, t, gpusim_unit_share(GPUSIM_FP64)); return g->model->gpm;
    case 1095: *out = cycles(p, from, t, gpusim_unit_share(GPUSIM_FP32)); return g->model->gpm;
    case 1096: *out = cycles(p, from, t, gpusim_unit_share(GPUSIM_FP16)); return g->model->gpm;
    default: break;
    }
    unsigned links = g->model->nvlinks;
    if (field >= 1040 && field <= 1075 && (unsigned)(field - 1040) / 2 < links) {
        *out = (int64_t)(gpusim_nvlink_bytes_per_s(g, field % 2 == 0, t - interval, t) / links);
        return true;
    }
    if (field >= 1525 && field <= 1533 && p->link >= 0 && (unsigned)p->link < links) {
        double tx = gpusim_nvlink_bytes_per_s(g, true, t - interval, t) / links, rx = gpusim_nvlink_bytes_per_s(g, false, t - interval, t) / links;
        *out = field < 1529 ? 0 : (int64_t)(field == 1529 ? (tx + rx) / 1e6 : field == 1530 ? tx / 1e3 : field == 1531 ? rx / 1e3 : field == 1532 ? tx : rx);
        return true;
    }
    return false;
}

static bool global_int(unsigned short field, int64_t t, int64_t *out)
{
    dcgm_field_eid_t ids[DCGM_GROUP_MAX_ENTITIES_V2];
    size_t count;
    const gpusim_event *events = gpusim_events(&count);
    switch (field) {
    case 4: *out = list_entities(DCGM_FE_GPU, true, ids, DCGM_GROUP_MAX_ENTITIES_V2); return true;
    case 5: *out = 12080; return true;
    case 6:
        for (size_t i = count; i-- > 0;) {
            if (events[i].kind == GPUSIM_BIND && events[i].t_us <= t) {
                *out = (int64_t)events[i].value;
                return true;
            }
        }
        return false;
    default: return false;
    }
}

static bool global_string(unsigned short field, char *out, size_t size)
{
    snprintf(out, size, "%s%s", field == 2 ? "12." : "", gpusim_driver_version());
    return field == 1 || field == 2;
}

static bool int_value(const place *p, const gpusim_epoch *e, unsigned short field, int64_t t, int64_t interval, int64_t *out)
{
    return identity_int(p, e, field, out) || state_int(p, e, field, t, out) || traffic_int(p, e, field, t, interval, out) || counter_int(p, e, field, t, out);
}

/* --- all types ------------------------------------------------------------------------------------------ */

void compute_reading(place p, unsigned short field, int64_t t_us, int64_t interval_us, reading *out)
{
    blank_reading(out, field, BLANK_NOT_SUPPORTED, DCGM_ST_OK, t_us);
    reading value = *out;
    if (field_meta(field)->entityLevel == DCGM_FE_NONE) {
        if (out->type == DCGM_FT_STRING ? global_string(field, value.str, sizeof value.str) : global_int(field, t_us, &value.i64)) {
            *out = value;
        }
        return;
    }
    if (p.fake && field == 50) {
        write_name(&p, NULL, NULL, out->str, sizeof out->str);
    }
    if (p.gpu == NULL) {
        return;
    }
    if (field_is_profiling(field) && !p.gpu->model->profiling) {
        return;
    }
    const gpusim_epoch *e = gpusim_epoch_at(p.gpu, t_us);
    bool known = false;
    switch (out->type) {
    case DCGM_FT_STRING: known = string_value(&p, e, field, value.str, sizeof value.str); break;
    case DCGM_FT_DOUBLE: known = double_value(&p, field, t_us, interval_us, &value.dbl); break;
    case DCGM_FT_INT64: known = int_value(&p, e, field, t_us, interval_us, &value.i64); break;
    default: break;
    }
    if (known) {
        *out = value;
    }
}
