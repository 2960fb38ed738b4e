/* Values, GPM samples and events of the simulated NVML. */
#include "nvml_lib.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MIB (UINT64_C(1) << 20)

/* --- the GPU's own --------------------------------------------------------------------------- */

EXPORT nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long *mj)
{
    target t;
    nvmlReturn_t rc = nvmlsim_begin_gpu(__func__, device, &t);
    DONE_VALUE(rc, t, 156, mj, unsigned long long, gpusim_energy_counter_mj(t.gpu, gpusim_now_us()));
}

/* The driver's mean of the last second. */
EXPORT nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int *mw)
{
    target t;
    nvmlReturn_t rc = nvmlsim_begin_gpu(__func__, device, &t);
    int64_t now = rc == NVML_SUCCESS ? gpusim_now_us() : 0;
    DONE_VALUE(rc, t, 155, mw, unsigned, lround(gpusim_energy_between_mj(t.gpu, now - 1000000, now)));
}

EXPORT nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor, unsigned int *celsius)
{
    target t;
    nvmlReturn_t rc = nvmlsim_begin_gpu(__func__, device, &t);
    if (rc == NVML_SUCCESS && sensor != NVML_TEMPERATURE_GPU) {
        rc = NVML_ERROR_INVALID_ARGUMENT;
    }
    DONE_VALUE(rc, t, 150, celsius, unsigned, lround(gpusim_temperature_c(t.gpu, gpusim_now_us())));
}

EXPORT nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *temperature)
{
    target t;
    nvmlReturn_t rc = nvmlsim_begin_gpu(__func__, device, &t);
    if (rc == NVML_SUCCESS && temperature->version != nvmlTemperature_v1) {
        rc = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    }
    if (rc == NVML_SUCCESS && temperature->sensorType != NVML_TEMPERATURE_GPU) {
        rc = NVML_ERROR_INVALID_ARGUMENT;
    }
    DONE_VALUE(rc, t, 150, &temperature->temperature, int, lround(gpusim_temperature_c(t.gpu, gpusim_now_us())));
}

EXPORT nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int *mhz)
{
    target t;
    nvmlReturn_t rc = nvmlsim_begin_gpu(__func__, device, &t);
    if (rc != NVML_SUCCESS || (type != NVML_CLOCK_SM && type != NVML_CLOCK_MEM)) {
        return nvmlsim_done(rc != NVML_SUCCESS ? rc : NVML_ERROR_INVALID_ARGUMENT);
    }
    int64_t now = gpusim_now_us();
    bool busy = gpusim_activity_mean(t.gpu, GPUSIM_WHOLE, GPUSIM_WHOLE, now, now) > 0;
    unsigned sm = busy ? t.gpu->model->sm_clock_mhz : t.gpu->model->idle_clock_mhz;
    DONE_VALUE(rc, t, type == NVML_CLOCK_SM ? 100 : 101, mhz, unsigned, type == NVML_CLOCK_SM ? sm : t.gpu->model->mem_clock_mhz);
}

EXPORT nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device, unsigned long long *reasons)
{
    target t;
    nvmlReturn_t rc = nvmlsim_begin_gpu(__func__, device, &t);
    int64_t now = rc == NVML_SUCCESS ? gpusim_now_us() : 0;
    DONE_VALUE(rc, t, 112, reasons, unsigned long long,
               gpusim_activity_mean(t.gpu, GPUSIM_WHOLE, GPUSIM_WHOLE, now, now) > 0 ? nvmlClocksEventReasonNone : nvmlClocksEventReasonGpuIdle);
}

EXPORT nvmlReturn_t nvmlDeviceGetPcieReplayCounter(nvmlDevice_t device, unsigned int *count)
{
    target t;
    nvmlReturn_t rc = nvmlsim_begin_gpu(__func__, device, &t);
    DONE_VALUE(rc, t, 202, count, unsigned, gpusim_event_count(t.gpu, GPUSIM_REPLAY, false, gpusim_now_us()));
}

EXPORT nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t type, nvmlEccCounterType_t counter, unsigned long long *count)
{
    target t;
    nvmlReturn_t rc = nvmlsim_begin_gpu(__func__, device, &t);
    if (rc == NVML_SUCCESS && !t.epoch->ecc) {
        rc = NVML_ERROR_NOT_SUPPORTED;
    }
    bool corrected = type == NVML_MEMORY_ERROR_TYPE_CORRECTED, aggregate = counter == NVML_AGGREGATE_ECC;
    DONE_VALUE(rc, t, 310 + !corrected + 2 * aggregate, count, unsigned long long,
               gpusim_event_count(t.gpu, corrected ? GPUSIM_SBE : GPUSIM_DBE, aggregate, gpusim_now_us()));
}

EXPORT nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *corrected, unsigned int *uncorrected, unsigned int *pending, unsigned int *failed)
{
    target t;
    double value = 0;
    nvmlReturn_t rc = nvmlsim_begin_gpu(__func__, device, &t);
    if (rc == NVML_SUCCESS && t.epoch->mig && t.epoch->gi_count > 0) {
        rc = NVML_ERROR_NOT_SUPPORTED;
    }
    if (rc == NVML_SUCCESS) {
        value = t.epoch->row_remap_failed;
        rc = nvmlsim_overridden(&t, 395, &value);
    }
    if (rc == NVML_SUCCESS) {
        *corrected = (unsigned)gpusim_event_count(t.gpu, GPUSIM_REMAP_CORRECTABLE, true, gpusim_now_us());
        *uncorrected = (unsigned)gpusim_event_count(t.gpu, GPUSIM_REMAP_UNCORRECTABLE, true, gpusim_now_us());
        *pending = 0;
        *failed = (unsigned)value;
    }
    return nvmlsim_done(rc);
}

EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates)
{
    target t;
    double gpu = 0, memory = 0;
    nvmlReturn_t rc = nvmlsim_begin_gpu(__func__, device, &t);
    if (rc == NVML_SUCCESS && t.epoch->mig) {
        rc = NVML_ERROR_NOT_SUPPORTED;
    }
    if (rc == NVML_SUCCESS) {
        gpu = gpusim_util_percent(t.gpu, gpusim_now_us());
        memory = gpusim_mem_util_percent(t.gpu, gpusim_now_us());
        rc = nvmlsim_overridden(&t, 203, &gpu);
    }
    if (rc == NVML_SUCCESS && (rc = nvmlsim_overridden(&t, 204, &memory)) == NVML_SUCCESS) {
        *rates = (nvmlUtilization_t){ .gpu = (unsigned)gpu, .memory = (unsigned)memory };
    }
    return nvmlsim_done(rc);
}

EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
    target t;
    nvmlReturn_t rc = nvmlsim_begin_gpu(__func__, device, &t);
    for (int i = 0; rc == NVML_SUCCESS && i < count; i++) {
        double value = lround(gpusim_temperature_c(t.gpu, gpusim_now_us())) + 8;
        bool known = values[i].fieldId == NVML_FI_DEV_MEMORY_TEMP;
        values[i].nvmlReturn = known ? nvmlsim_overridden(&t, 140, &value) : NVML_ERROR_NOT_SUPPORTED;
        values[i].timestamp = gpusim_now_us();
        values[i].valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
        values[i].value.uiVal = (unsigned)value;
    }
    return nvmlsim_done(rc);
}

/* --- memory, of the GPU or an instance ----------------------------------------------------------- */

static nvmlReturn_t memory_of(const target *t, uint64_t *total, uint64_t *used, uint64_t *reserved)
{
    double mib = gpusim_fb_used_mib(t->gpu, t->gi_id, gpusim_now_us());
    nvmlReturn_t rc = nvmlsim_overridden(t, 252, &mib);
    *total = gpusim_fb_total_mib(t->gpu, t->gi_id, gpusim_now_us()) * MIB;
    *used = (uint64_t)mib * MIB;
    *reserved = t->gi == NULL ? 512 * MIB : 0;
    return rc;
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    target t;
    uint64_t total, used, reserved;
    nvmlReturn_t rc = nvmlsim_begin_device(__func__, device, &t);
    if (rc == NVML_SUCCESS && (rc = memory_of(&t, &total, &used, &reserved)) == NVML_SUCCESS) {
        *memory = (nvmlMemory_t){ .total = total, .free = total - used, .used = used };
    }
    return nvmlsim_done(rc);
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    target t;
    uint64_t total, used, reserved;
    nvmlReturn_t rc = nvmlsim_begin_device(__func__, device, &t);
    if (rc == NVML_SUCCESS && memory->version != nvmlMemory_v2) {
        rc = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    }
    if (rc == NVML_SUCCESS && (rc = memory_of(&t, &total, &used, &reserved)) == NVML_SUCCESS) {
        *memory = (nvmlMemory_v2_t){ .version = nvmlMemory_v2, .total = total, .reserved = reserved, .free = total - used, .used = used };
    }
    return nvmlsim_done(rc);
}

/* --- GPM ------------------------------------------------------------------------------------------- */

struct nvmlGpmSample_st {
    bool filled;
    unsigned gpu;
    int gi;
    int64_t t_us;
};

EXPORT nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t device, nvmlGpmSupport_t *support)
{
    target t;
    nvmlReturn_t rc = nvmlsim_begin_gpu(__func__, device, &t);
    if (rc == NVML_SUCCESS) {
        support->isSupportedDevice = t.gpu->model->gpm;
    }
    return nvmlsim_done(rc);
}

EXPORT nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t *sample)
{
    nvmlReturn_t rc = nvmlsim_begin(__func__);
    if (rc == NVML_SUCCESS) {
        *sample = calloc(1, sizeof **sample);
        rc = *sample == NULL ? NVML_ERROR_MEMORY : NVML_SUCCESS;
    }
    return nvmlsim_done(rc);
}

EXPORT nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t sample)
{
    int forced = gpusim_enter(__func__);
    free(sample);
    return nvmlsim_done((nvmlReturn_t)forced);
}

static nvmlReturn_t take(nvmlReturn_t rc, const target *t, int gi, nvmlGpmSample_t sample)
{
    if (rc == NVML_SUCCESS && !t->gpu->model->gpm) {
        rc = NVML_ERROR_NOT_SUPPORTED;
    }
    if (rc == NVML_SUCCESS && gi != GPUSIM_WHOLE && gpusim_find_gi(t->epoch, gi) == NULL) {
        rc = NVML_ERROR_INVALID_ARGUMENT;
    }
    if (rc == NVML_SUCCESS) {
        *sample = (struct nvmlGpmSample_st){ true, t->gpu->id, gi, gpusim_now_us() };
    }
    return nvmlsim_done(rc);
}

EXPORT nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t device, nvmlGpmSample_t sample)
{
    target t;
    nvmlReturn_t rc = nvmlsim_begin_device(__func__, device, &t);
    return take(rc, &t, rc == NVML_SUCCESS ? t.gi_id : GPUSIM_WHOLE, sample);
}

EXPORT nvmlReturn_t nvmlGpmMigSampleGet(nvmlDevice_t device, unsigned int gi, nvmlGpmSample_t sample)
{
    target t;
    nvmlReturn_t rc = nvmlsim_begin_gpu(__func__, device, &t);
    return take(rc, &t, (int)gi, sample);
}

/* NVML's metric as unit of the model and field of DCGM, which "blank" lines know. */
static const struct {
    unsigned metric, field;
    gpusim_unit unit;
} gpm_units[] = {
    { NVML_GPM_METRIC_GRAPHICS_UTIL, 1001, GPUSIM_GR },       { NVML_GPM_METRIC_SM_UTIL, 1002, GPUSIM_SM },
    { NVML_GPM_METRIC_SM_OCCUPANCY, 1003, GPUSIM_OCCUPANCY }, { NVML_GPM_METRIC_ANY_TENSOR_UTIL, 1004, GPUSIM_TENSOR },
    { NVML_GPM_METRIC_DRAM_BW_UTIL, 1005, GPUSIM_DRAM },      { NVML_GPM_METRIC_FP64_UTIL, 1006, GPUSIM_FP64 },
    { NVML_GPM_METRIC_FP32_UTIL, 1007, GPUSIM_FP32 },         { NVML_GPM_METRIC_FP16_UTIL, 1008, GPUSIM_FP16 },
    { NVML_GPM_METRIC_INTEGER_UTIL, 1016, GPUSIM_INT },
};

/* Means between two samples: percent, and MiB/s for PCIe, which only a GPU has. */
static nvmlReturn_t gpm_value(const target *t, int64_t t0, int64_t t1, unsigned metric, double *value)
{
    for (size_t i = 0; i < sizeof gpm_units / sizeof *gpm_units; i++) {
        if (gpm_units[i].metric == metric) {
            *value = 100 * gpusim_unit_share(gpm_units[i].unit) * gpusim_activity_mean(t->gpu, t->gi_id, GPUSIM_WHOLE, t0, t1);
            return nvmlsim_overridden(t, gpm_units[i].field, value);
        }
    }
    bool tx = metric == NVML_GPM_METRIC_PCIE_TX_PER_SEC;
    if ((tx || metric == NVML_GPM_METRIC_PCIE_RX_PER_SEC) && t->gi_id == GPUSIM_WHOLE) {
        *value = gpusim_pcie_bytes_per_s(t->gpu, tx, t0, t1) / (double)MIB;
        return nvmlsim_overridden(t, tx ? 1009 : 1010, value);
    }
    return NVML_ERROR_NOT_SUPPORTED;
}

EXPORT nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *get)
{
    nvmlReturn_t rc = nvmlsim_begin(__func__);
    const struct nvmlGpmSample_st *a = get->sample1, *b = get->sample2;
    if (rc == NVML_SUCCESS && get->version != NVML_GPM_METRICS_GET_VERSION) {
        rc = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    }
    bool pair = a != NULL && b != NULL && a->filled && b->filled && a->gpu == b->gpu && a->gi == b->gi && a->t_us < b->t_us;
    if (rc == NVML_SUCCESS && (!pair || get->numMetrics > NVML_GPM_METRIC_MAX || gpusim_gpu(a->gpu) == NULL)) {
        rc = NVML_ERROR_INVALID_ARGUMENT;
    }
    for (unsigned i = 0; rc == NVML_SUCCESS && i < get->numMetrics; i++) {
        target t = { .gpu = gpusim_gpu(a->gpu), .gi_id = a->gi, .ci_id = GPUSIM_WHOLE };
        get->metrics[i].nvmlReturn = gpm_value(&t, a->t_us, b->t_us, get->metrics[i].metricId, &get->metrics[i].value);
    }
    return nvmlsim_done(rc);
}

/* --- events ---------------------------------------------------------------------------------------- */

struct nvmlEventSet_st {
    unsigned long long types[GPUSIM_MAX_GPUS];
    size_t before[GPUSIM_MAX_GPUS]; /* how many of the GPU's events came before it was registered */
    size_t delivered;
};

static unsigned long long event_type(gpusim_event_kind kind)
{
    switch (kind) {
    case GPUSIM_XID: return nvmlEventTypeXidCriticalError;
    case GPUSIM_SBE: return nvmlEventTypeSingleBitEccError;
    case GPUSIM_DBE: return nvmlEventTypeDoubleBitEccError;
    default: return nvmlEventTypeNone;
    }
}

EXPORT nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
    nvmlReturn_t rc = nvmlsim_begin(__func__);
    if (rc == NVML_SUCCESS) {
        *set = calloc(1, sizeof **set);
        rc = *set == NULL ? NVML_ERROR_MEMORY : NVML_SUCCESS;
    }
    return nvmlsim_done(rc);
}

EXPORT nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
    int forced = gpusim_enter(__func__);
    free(set);
    return nvmlsim_done((nvmlReturn_t)forced);
}

EXPORT nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *types)
{
    target t;
    nvmlReturn_t rc = nvmlsim_begin_gpu(__func__, device, &t);
    if (rc == NVML_SUCCESS) {
        *types = nvmlEventTypeXidCriticalError | (t.epoch->ecc ? nvmlEventTypeSingleBitEccError | nvmlEventTypeDoubleBitEccError : 0);
    }
    return nvmlsim_done(rc);
}

/* Events of a GPU that readers may register for, up to now. */
static size_t events_of(unsigned gpu)
{
    size_t count, n = 0;
    const gpusim_event *e = gpusim_events(&count);
    for (size_t i = 0; i < count; i++) {
        n += e[i].gpu == gpu && event_type(e[i].kind) != nvmlEventTypeNone;
    }
    return n;
}

EXPORT nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set)
{
    target t;
    nvmlReturn_t rc = nvmlsim_begin_gpu(__func__, device, &t);
    if (rc == NVML_SUCCESS) {
        set->types[t.gpu->id] = types;
        set->before[t.gpu->id] = events_of(t.gpu->id);
    }
    return nvmlsim_done(rc);
}

/* The next event that wasn't delivered yet; else a lost GPU is told, else TIMEOUT. */
static nvmlReturn_t next_event(nvmlEventSet_t set, nvmlEventData_t *data)
{
    size_t count, matched = 0, seen[GPUSIM_MAX_GPUS] = { 0 };
    const gpusim_event *events = gpusim_events(&count);
    for (size_t i = 0; i < count; i++) {
        const gpusim_event *e = &events[i];
        unsigned long long type = event_type(e->kind);
        if (type == nvmlEventTypeNone || seen[e->gpu]++ < set->before[e->gpu] || (set->types[e->gpu] & type) == 0 || matched++ < set->delivered) {
            continue;
        }
        set->delivered++;
        *data = (nvmlEventData_t){ .device = nvmlsim_handle(e->gpu, GPUSIM_WHOLE, GPUSIM_WHOLE, 0), .eventType = type,
                                   .eventData = e->kind == GPUSIM_XID ? e->value : 0,
                                   .gpuInstanceId = e->gi == GPUSIM_WHOLE ? NO_ID : (unsigned)e->gi,
                                   .computeInstanceId = e->ci == GPUSIM_WHOLE ? NO_ID : (unsigned)e->ci };
        return NVML_SUCCESS;
    }
    for (unsigned i = 0; i < gpusim_gpu_count(); i++) {
        if (set->types[i] != 0 && gpusim_epoch_now(gpusim_gpu(i))->lost) {
            return NVML_ERROR_GPU_IS_LOST;
        }
    }
    return NVML_ERROR_TIMEOUT;
}

/* Waits in real time, whatever the model's clock does; the call is counted once. */
EXPORT nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms)
{
    const struct timespec nap = { .tv_nsec = 2000000 };
    const char *symbol = __func__;
    for (unsigned waited = 0;; waited += 2) {
        nvmlReturn_t rc = nvmlsim_begin(symbol);
        rc = nvmlsim_done(rc == NVML_SUCCESS ? next_event(set, data) : rc);
        if (rc != NVML_ERROR_TIMEOUT || waited >= timeout_ms) {
            return rc;
        }
        symbol = "nvmlEventSetWait_v2, waiting";
        nanosleep(&nap, NULL);
    }
}
