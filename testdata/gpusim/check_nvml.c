/* Goes through the whole of libnvidia-ml.so.1 once, for sanitizers and valgrind: `make check`.
 * The values are asserted by the Go tests; here only memory, and what is answered at the edges. */
#include "nvml_lib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WANT(code, call)                                                                        \
    do {                                                                                        \
        int rc_ = (int)(call);                                                                  \
        if (rc_ != (int)(code)) {                                                               \
            fprintf(stderr, "%s:%d: %s: %d, want %s\n", __FILE__, __LINE__, #call, rc_, #code); \
            exit(1);                                                                            \
        }                                                                                       \
    } while (0)
#define MUST(call) WANT(NVML_SUCCESS, call)

static void line(const char *s)
{
    char error[256] = "";
    if (gpusim_do(s, error, sizeof error) != 0) {
        fprintf(stderr, "%s\n", error);
        exit(1);
    }
}

static void check_names(nvmlDevice_t device)
{
    char text[NVML_DEVICE_NAME_V2_BUFFER_SIZE];
    unsigned u;
    int major, minor;
    nvmlPciInfo_t pci;
    nvmlDevice_t same;
    MUST(nvmlDeviceGetName(device, text, sizeof text));
    WANT(NVML_ERROR_INSUFFICIENT_SIZE, nvmlDeviceGetName(device, text, 4));
    MUST(nvmlDeviceGetSerial(device, text, sizeof text));
    MUST(nvmlDeviceGetVbiosVersion(device, text, sizeof text));
    MUST(nvmlDeviceGetUUID(device, text, sizeof text));
    MUST(nvmlDeviceGetHandleByUUID(text, &same));
    WANT(NVML_ERROR_NOT_FOUND, nvmlDeviceGetHandleByUUID("GPU-none", &same));
    MUST(nvmlDeviceGetIndex(device, &u));
    MUST(nvmlDeviceGetMinorNumber(device, &u));
    MUST(nvmlDeviceGetPciInfo_v3(device, &pci));
    MUST(nvmlDeviceGetCudaComputeCapability(device, &major, &minor));
}

static void check_values(nvmlDevice_t device, nvmlReturn_t with_mig)
{
    unsigned u[4];
    unsigned long long n;
    nvmlUtilization_t rates;
    nvmlTemperature_t temperature = { .version = nvmlTemperature_v1, .sensorType = NVML_TEMPERATURE_GPU };
    nvmlMemory_t memory;
    nvmlMemory_v2_t memory_v2 = { .version = nvmlMemory_v2 };
    nvmlFieldValue_t fields[2] = { { .fieldId = NVML_FI_DEV_MEMORY_TEMP }, { .fieldId = 1 } };
    MUST(nvmlDeviceGetTotalEnergyConsumption(device, &n));
    MUST(nvmlDeviceGetPowerUsage(device, u));
    MUST(nvmlDeviceGetTemperature(device, NVML_TEMPERATURE_GPU, u));
    MUST(nvmlDeviceGetTemperatureV(device, &temperature));
    MUST(nvmlDeviceGetClockInfo(device, NVML_CLOCK_SM, u));
    MUST(nvmlDeviceGetClockInfo(device, NVML_CLOCK_MEM, u));
    WANT(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetClockInfo(device, NVML_CLOCK_VIDEO, u));
    MUST(nvmlDeviceGetCurrentClocksEventReasons(device, &n));
    MUST(nvmlDeviceGetPcieReplayCounter(device, u));
    MUST(nvmlDeviceGetTotalEccErrors(device, NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_VOLATILE_ECC, &n));
    WANT(with_mig, nvmlDeviceGetRemappedRows(device, &u[0], &u[1], &u[2], &u[3]));
    WANT(with_mig, nvmlDeviceGetUtilizationRates(device, &rates));
    MUST(nvmlDeviceGetFieldValues(device, 2, fields));
    MUST(nvmlDeviceGetMemoryInfo(device, &memory));
    MUST(nvmlDeviceGetMemoryInfo_v2(device, &memory_v2));
}

static void check_instances(nvmlDevice_t device)
{
    unsigned current, pending, count, id;
    char text[NVML_DEVICE_NAME_V2_BUFFER_SIZE];
    nvmlDevice_t mig, parent;
    nvmlDeviceAttributes_t attributes;
    nvmlMemory_t memory;
    MUST(nvmlDeviceGetMigMode(device, &current, &pending));
    MUST(nvmlDeviceGetMaxMigDeviceCount(device, &count));
    for (unsigned i = 0; i < count; i++) {
        if (nvmlDeviceGetMigDeviceHandleByIndex(device, i, &mig) != NVML_SUCCESS) {
            continue;
        }
        MUST(nvmlDeviceGetName(mig, text, sizeof text));
        MUST(nvmlDeviceGetUUID(mig, text, sizeof text));
        MUST(nvmlDeviceGetHandleByUUID(text, &mig));
        MUST(nvmlDeviceGetGpuInstanceId(mig, &id));
        MUST(nvmlDeviceGetComputeInstanceId(mig, &id));
        MUST(nvmlDeviceGetAttributes_v2(mig, &attributes));
        MUST(nvmlDeviceGetMemoryInfo(mig, &memory));
        MUST(nvmlDeviceIsMigDeviceHandle(mig, &id));
        MUST(nvmlDeviceGetDeviceHandleFromMigDeviceHandle(mig, &parent));
        WANT(NVML_ERROR_NOT_SUPPORTED, nvmlDeviceGetPowerUsage(mig, &id));
    }
    WANT(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetMigDeviceHandleByIndex(device, count, &mig));
    for (unsigned p = 0; p < NVML_GPU_INSTANCE_PROFILE_COUNT; p++) {
        nvmlGpuInstanceProfileInfo_t info;
        nvmlGpuInstanceProfileInfo_v2_t info_v2 = { .version = nvmlGpuInstanceProfileInfo_v2 };
        nvmlGpuInstance_t instances[GPUSIM_MAX_GI];
        nvmlGpuInstanceInfo_t gi;
        if (nvmlDeviceGetGpuInstanceProfileInfo(device, p, &info) != NVML_SUCCESS) {
            continue;
        }
        MUST(nvmlDeviceGetGpuInstanceProfileInfoV(device, p, &info_v2));
        MUST(nvmlDeviceGetGpuInstances(device, info.id, instances, &count));
        for (unsigned i = 0; i < count; i++) {
            MUST(nvmlGpuInstanceGetInfo(instances[i], &gi));
        }
    }
}

static void check_gpm(nvmlDevice_t device, int gi)
{
    nvmlGpmSupport_t support;
    nvmlGpmMetricsGet_t get = { .version = NVML_GPM_METRICS_GET_VERSION, .numMetrics = NVML_GPM_METRIC_MAX };
    for (unsigned i = 0; i < NVML_GPM_METRIC_MAX; i++) {
        get.metrics[i].metricId = i;
    }
    MUST(nvmlGpmQueryDeviceSupport(device, &support));
    MUST(nvmlGpmSampleAlloc(&get.sample1));
    MUST(nvmlGpmSampleAlloc(&get.sample2));
    WANT(NVML_ERROR_INVALID_ARGUMENT, nvmlGpmMetricsGet(&get));
    MUST(gi < 0 ? nvmlGpmSampleGet(device, get.sample1) : nvmlGpmMigSampleGet(device, (unsigned)gi, get.sample1));
    gpusim_advance_us(1000000);
    MUST(gi < 0 ? nvmlGpmSampleGet(device, get.sample2) : nvmlGpmMigSampleGet(device, (unsigned)gi, get.sample2));
    MUST(nvmlGpmMetricsGet(&get));
    MUST(nvmlGpmSampleFree(get.sample1));
    MUST(nvmlGpmSampleFree(get.sample2));
}

static void check_events(nvmlDevice_t a, nvmlDevice_t b)
{
    nvmlEventSet_t set;
    nvmlEventData_t data;
    unsigned long long types;
    MUST(nvmlEventSetCreate(&set));
    MUST(nvmlDeviceGetSupportedEventTypes(a, &types));
    MUST(nvmlDeviceRegisterEvents(a, types, set));
    MUST(nvmlDeviceRegisterEvents(b, nvmlEventTypeXidCriticalError, set));
    WANT(NVML_ERROR_TIMEOUT, nvmlEventSetWait_v2(set, &data, 1));
    line("xid 0 31; sbe 1 1; dbe 0 1; xid 1 79; lost 1");
    for (unsigned i = 0; i < 3; i++) {
        MUST(nvmlEventSetWait_v2(set, &data, 1));
    }
    WANT(NVML_ERROR_GPU_IS_LOST, nvmlEventSetWait_v2(set, &data, 1));
    MUST(nvmlEventSetFree(set));
}

int main(void)
{
    nvmlDevice_t a, b, gone;
    char text[64];
    int version;
    unsigned count, u;
    gpusim_reset();
    line("gpus 2; mig 1 3g.40gb/1c+2c 1g.10gb");
    WANT(NVML_ERROR_UNINITIALIZED, nvmlDeviceGetCount_v2(&count));
    MUST(nvmlInit_v2());
    MUST(nvmlSystemGetDriverVersion(text, sizeof text));
    MUST(nvmlSystemGetNVMLVersion(text, sizeof text));
    MUST(nvmlSystemGetCudaDriverVersion(&version));
    MUST(nvmlDeviceGetHandleByIndex_v2(0, &a));
    MUST(nvmlDeviceGetHandleByIndex_v2(1, &b));
    WANT(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetHandleByIndex_v2(2, &gone));
    check_names(a);
    check_values(a, NVML_SUCCESS);
    check_values(b, NVML_ERROR_NOT_SUPPORTED);
    check_instances(b);
    check_gpm(a, -1);
    check_gpm(b, 1);
    MUST(nvmlDeviceGetMigDeviceHandleByIndex(b, 0, &gone));
    line("mig 1 on");
    WANT(NVML_ERROR_NOT_FOUND, nvmlDeviceGetUUID(gone, text, sizeof text));
    check_events(a, b);
    WANT(NVML_ERROR_GPU_IS_LOST, nvmlDeviceGetPowerUsage(b, &u));
    WANT(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetPowerUsage(NULL, &u));
    MUST(nvmlDeviceGetCount_v2(&count));
    line("driver reload");
    WANT(NVML_ERROR_UNINITIALIZED, nvmlDeviceGetCount_v2(&count));
    WANT(NVML_ERROR_DRIVER_NOT_LOADED, nvmlInit_v2());
    gpusim_advance_us(2000000);
    MUST(nvmlInit_v2());
    MUST(nvmlShutdown());
    printf("%s\n", nvmlErrorString(NVML_SUCCESS));
    return 0;
}
