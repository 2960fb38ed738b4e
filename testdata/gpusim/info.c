/* Inventory: devices, attributes, MIG hierarchy, topology, links, profiling groups, versions. */
#define _GNU_SOURCE
#include "engine.h"

#include <stdio.h>
#include <string.h>

/* --- devices ---------------------------------------------------------------------------------- */

dcgmReturn_t dcgmGetAllDevices(dcgmHandle_t pDcgmHandle, unsigned int gpuIdList[DCGM_MAX_NUM_DEVICES], int *count)
{
    dcgmReturn_t rc = engine_enter("dcgmGetAllDevices", pDcgmHandle);
    if (rc == DCGM_ST_OK) {
        *count = (int)list_entities(DCGM_FE_GPU, false, gpuIdList, DCGM_MAX_NUM_DEVICES);
    }
    return engine_leave_quietly(rc);
}

dcgmReturn_t dcgmGetAllSupportedDevices(dcgmHandle_t pDcgmHandle, unsigned int gpuIdList[DCGM_MAX_NUM_DEVICES], int *count)
{
    dcgmReturn_t rc = engine_enter("dcgmGetAllSupportedDevices", pDcgmHandle);
    if (rc == DCGM_ST_OK) {
        *count = (int)list_entities(DCGM_FE_GPU, true, gpuIdList, DCGM_MAX_NUM_DEVICES);
    }
    return engine_leave_quietly(rc);
}

dcgmReturn_t dcgmGetEntityGroupEntities(dcgmHandle_t dcgmHandle, dcgm_field_entity_group_t entityGroup, dcgm_field_eid_t *entities, int *numEntities, unsigned int flags)
{
    dcgmReturn_t rc = engine_enter("dcgmGetEntityGroupEntities", dcgmHandle);
    dcgm_field_eid_t ids[DCGM_GROUP_MAX_ENTITIES_V2];
    unsigned n = rc == DCGM_ST_OK ? list_entities(entityGroup, (flags & DCGM_GEGE_FLAG_ONLY_SUPPORTED) != 0, ids, DCGM_GROUP_MAX_ENTITIES_V2) : 0;
    if (rc == DCGM_ST_OK && *numEntities < (int)n) {
        rc = DCGM_ST_INSUFFICIENT_SIZE;
    } else if (rc == DCGM_ST_OK) {
        memcpy(entities, ids, n * sizeof *ids);
    }
    if (rc == DCGM_ST_OK || rc == DCGM_ST_INSUFFICIENT_SIZE) {
        *numEntities = (int)n;
    }
    return engine_leave_quietly(rc);
}

dcgmReturn_t dcgmGetGpuStatus(dcgmHandle_t pDcgmHandle, unsigned int gpuId, DcgmEntityStatus_t *status)
{
    dcgmReturn_t rc = engine_enter("dcgmGetGpuStatus", pDcgmHandle);
    if (rc == DCGM_ST_OK) {
        const gpusim_gpu_t *g = gpusim_gpu(gpuId);
        if (g != NULL) {
            *status = engine.detached ? DcgmEntityStatusDetached : gpusim_epoch_now(g)->lost ? DcgmEntityStatusLost : DcgmEntityStatusOk;
        } else {
            *status = gpuId < gpusim_gpu_count() + engine.fake_gpus ? DcgmEntityStatusFake : DcgmEntityStatusUnknown;
        }
    }
    return engine_leave_quietly(rc);
}

static void put(char *out, size_t size, const char *s) { snprintf(out, size, "%s", s); }

static void fill_identity(const gpusim_gpu_t *g, dcgmDeviceAttributes_t *a)
{
    const gpusim_epoch *e = gpusim_epoch_now(g);
    put(a->identifiers.brandName, sizeof a->identifiers.brandName, "NVIDIA");
    put(a->identifiers.deviceName, sizeof a->identifiers.deviceName, g->model->name);
    put(a->identifiers.pciBusId, sizeof a->identifiers.pciBusId, g->pci_bus_id);
    put(a->identifiers.serial, sizeof a->identifiers.serial, g->serial);
    put(a->identifiers.uuid, sizeof a->identifiers.uuid, g->uuid);
    put(a->identifiers.vbios, sizeof a->identifiers.vbios, "96.00.05.00.01");
    put(a->identifiers.inforomImageVersion, sizeof a->identifiers.inforomImageVersion, "G520.0200.00.05");
    put(a->identifiers.driverVersion, sizeof a->identifiers.driverVersion, gpusim_driver_version());
    a->identifiers.pciDeviceId = g->model->pci_device_id;
    a->identifiers.pciSubSystemId = 0x16c110de;
    a->thermalSettings.slowdownTemp = 89;
    a->thermalSettings.shutdownTemp = 92;
    a->powerLimits.curPowerLimit = a->powerLimits.defaultPowerLimit = a->powerLimits.enforcedPowerLimit = a->powerLimits.maxPowerLimit = (unsigned)g->model->max_w;
    a->powerLimits.minPowerLimit = (unsigned)(g->model->max_w / 3.5);
    a->memoryUsage.bar1Total = 131072;
    a->memoryUsage.fbTotal = g->model->memory_mib;
    a->memoryUsage.fbUsed = gpusim_fb_used_mib(g, GPUSIM_WHOLE, gpusim_now_us());
    a->memoryUsage.fbFree = a->memoryUsage.fbTotal - a->memoryUsage.fbUsed;
    a->settings.persistenceModeEnabled = e->persistence;
    a->settings.migModeEnabled = e->mig;
}

dcgmReturn_t dcgmGetDeviceAttributes(dcgmHandle_t pDcgmHandle, unsigned int gpuId, dcgmDeviceAttributes_t *a)
{
    dcgmReturn_t rc = engine_enter("dcgmGetDeviceAttributes", pDcgmHandle);
    if (rc == DCGM_ST_OK && a->version != dcgmDeviceAttributes_version) {
        rc = DCGM_ST_VER_MISMATCH;
    } else if (rc == DCGM_ST_OK && gpuId >= gpusim_gpu_count() + engine.fake_gpus) {
        rc = DCGM_ST_BADPARAM;
    }
    if (rc == DCGM_ST_OK) {
        const gpusim_gpu_t *g = gpusim_gpu(gpuId);
        unsigned version = a->version;
        memset(a, 0, sizeof *a);
        a->version = version;
        if (g != NULL) {
            fill_identity(g, a);
        } else {
            put(a->identifiers.deviceName, sizeof a->identifiers.deviceName, "Fake GPU");
            snprintf(a->identifiers.uuid, sizeof a->identifiers.uuid, "GPU-00000000-0000-0000-0000-%012u", gpuId);
        }
    }
    return engine_leave_quietly(rc);
}

/* --- MIG -------------------------------------------------------------------------------------------- */

static unsigned add_hierarchy(dcgmMigHierarchy_v2 *h, const gpusim_gpu_t *g, const gpusim_gi *gi, const gpusim_ci *ci)
{
    dcgmMigHierarchyInfo_v2 *i = &h->entityList[h->count];
    unsigned base = g->id * ENTITIES_PER_GPU;
    memset(i, 0, sizeof *i);
    i->entity = ci == NULL ? (dcgmGroupEntityPair_t){ DCGM_FE_GPU_I, base + gi->index } : (dcgmGroupEntityPair_t){ DCGM_FE_GPU_CI, base + ci->index };
    i->parent = ci == NULL ? (dcgmGroupEntityPair_t){ DCGM_FE_GPU, g->id } : (dcgmGroupEntityPair_t){ DCGM_FE_GPU_I, base + gi->index };
    put(i->info.gpuUuid, sizeof i->info.gpuUuid, g->uuid);
    i->info.nvmlGpuIndex = g->id;
    i->info.nvmlInstanceId = gi->nvml_id;
    i->info.nvmlComputeInstanceId = ci == NULL ? (unsigned)-1 : ci->nvml_id;
    i->info.nvmlMigProfileId = ci == NULL ? gi->profile->nvml_id : ci->slices - 1;
    i->info.nvmlProfileSlices = ci == NULL ? gi->profile->slices : ci->slices;
    return ++h->count;
}

dcgmReturn_t dcgmGetGpuInstanceHierarchy(dcgmHandle_t dcgmHandle, dcgmMigHierarchy_v2 *h)
{
    dcgmReturn_t rc = engine_enter("dcgmGetGpuInstanceHierarchy", dcgmHandle);
    if (rc == DCGM_ST_OK && h->version != dcgmMigHierarchy_version2) {
        rc = DCGM_ST_VER_MISMATCH;
    }
    if (rc != DCGM_ST_OK) {
        return engine_leave_quietly(rc);
    }
    h->count = 0;
    for (unsigned i = 0; i < gpusim_gpu_count() && !engine.detached; i++) {
        const gpusim_gpu_t *g = gpusim_gpu(i);
        const gpusim_epoch *e = gpusim_epoch_now(g);
        for (unsigned k = 0; k < e->gi_count && !e->lost; k++) {
            add_hierarchy(h, g, &e->gi[k], NULL);
            for (unsigned c = 0; c < e->gi[k].ci_count; c++) {
                add_hierarchy(h, g, &e->gi[k], &e->gi[k].ci[c]);
            }
        }
    }
    return engine_leave_quietly(DCGM_ST_OK);
}

/* --- topology and links --------------------------------------------------------------------------------- */

dcgmReturn_t dcgmGetDeviceTopology(dcgmHandle_t pDcgmHandle, unsigned int gpuId, dcgmDeviceTopology_v2 *t)
{
    dcgmReturn_t rc = engine_enter("dcgmGetDeviceTopology", pDcgmHandle);
    const gpusim_gpu_t *g = gpusim_gpu(gpuId);
    if (rc == DCGM_ST_OK && t->version != dcgmDeviceTopology_version2) {
        rc = DCGM_ST_VER_MISMATCH;
    } else if (rc == DCGM_ST_OK && g == NULL) {
        rc = DCGM_ST_BADPARAM;
    }
    if (rc == DCGM_ST_OK) {
        t->numGpus = 0;
        t->cpuAffinityMask[0] = gpuId < 4 ? 0x00ffffff : 0x00ffffff000000;
        for (unsigned i = 0; i < gpusim_gpu_count(); i++) {
            if (i != gpuId) {
                uint64_t links = g->model->nvlinks;
                t->gpuPaths[t->numGpus].gpuId = i;
                t->gpuPaths[t->numGpus].path = ((gpuId < 4) == (i < 4) ? DCGM_TOPOLOGY_CPU : DCGM_TOPOLOGY_SYSTEM) | (links > 0 ? (uint64_t)DCGM_TOPOLOGY_NVLINK1 << (links - 1) : 0);
                t->gpuPaths[t->numGpus++].localNvLinkIds = (UINT64_C(1) << links) - 1;
            }
        }
    }
    return engine_leave_quietly(rc);
}

dcgmReturn_t dcgmGetNvLinkLinkStatus(dcgmHandle_t dcgmHandle, dcgmNvLinkStatus_v5 *s)
{
    dcgmReturn_t rc = engine_enter("dcgmGetNvLinkLinkStatus", dcgmHandle);
    if (rc == DCGM_ST_OK && s->version != dcgmNvLinkStatus_version5) {
        rc = DCGM_ST_VER_MISMATCH;
    }
    if (rc == DCGM_ST_OK) {
        s->numGpus = gpusim_gpu_count();
        s->numNvSwitches = 0;
        for (unsigned i = 0; i < s->numGpus; i++) {
            s->gpus[i].entityId = i;
            for (unsigned k = 0; k < DCGM_NVLINK_MAX_LINKS_PER_GPU; k++) {
                s->gpus[i].linkState[k] = k < gpusim_gpu(i)->model->nvlinks ? DcgmNvLinkLinkStateUp : DcgmNvLinkLinkStateNotSupported;
            }
        }
    }
    return engine_leave_quietly(rc);
}

dcgmReturn_t dcgmGetNvLinkP2PStatus(dcgmHandle_t dcgmHandle, dcgmNvLinkP2PStatus_v1 *s)
{
    dcgmReturn_t rc = engine_enter("dcgmGetNvLinkP2PStatus", dcgmHandle);
    if (rc == DCGM_ST_OK && s->version != dcgmNvLinkP2PStatus_version1) {
        rc = DCGM_ST_VER_MISMATCH;
    }
    if (rc == DCGM_ST_OK) {
        s->numGpus = gpusim_gpu_count();
        for (unsigned i = 0; i < s->numGpus; i++) {
            s->gpus[i].entityId = i;
            for (unsigned k = 0; k < s->numGpus; k++) {
                s->gpus[i].linkStatus[k] = i != k && gpusim_gpu(i)->model->nvlinks > 0 ? DcgmNvLinkP2pStatusOK : DcgmNvLinkP2pStatusNotSupported;
            }
        }
    }
    return engine_leave_quietly(rc);
}

/* --- profiling ------------------------------------------------------------------------------------------------ */

dcgmReturn_t dcgmProfGetSupportedMetricGroups(dcgmHandle_t pDcgmHandle, dcgmProfGetMetricGroups_t *m)
{
    static const unsigned short fields[] = { 1001, 1002, 1003, 1004, 1005, 1006, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 1015, 1016 };
    dcgmReturn_t rc = engine_enter("dcgmProfGetSupportedMetricGroups", pDcgmHandle);
    const gpusim_gpu_t *g = gpusim_gpu(m->gpuId);
    if (rc == DCGM_ST_OK && m->version != dcgmProfGetMetricGroups_version) {
        rc = DCGM_ST_VER_MISMATCH;
    } else if (rc == DCGM_ST_OK && g == NULL) {
        rc = DCGM_ST_BADPARAM;
    } else if (rc == DCGM_ST_OK && !g->model->profiling) {
        rc = DCGM_ST_PROFILING_NOT_SUPPORTED;
    } else if (rc == DCGM_ST_OK) {
        rc = (dcgmReturn_t)gpusim_fail_fields(fields, sizeof fields / sizeof *fields);
    }
    if (rc == DCGM_ST_OK) {
        m->numMetricGroups = 1;
        m->metricGroups[0].majorId = m->metricGroups[0].minorId = 0;
        m->metricGroups[0].numFieldIds = sizeof fields / sizeof *fields;
        memcpy(m->metricGroups[0].fieldIds, fields, sizeof fields);
    }
    return engine_leave_quietly(rc);
}

/* --- the engine itself -------------------------------------------------------------------------------------------- */

static dcgmReturn_t fill_version(dcgmReturn_t rc, dcgmVersionInfo_t *v)
{
    if (rc == DCGM_ST_OK && v->version != dcgmVersionInfo_version) {
        rc = DCGM_ST_VER_MISMATCH;
    }
    if (rc == DCGM_ST_OK) {
        snprintf(v->rawBuildInfoString, sizeof v->rawBuildInfoString, "version:4.6.0;arch:x86_64;buildtype:Simulated;buildid:0;builddate:2026-01-01;commit:0;branch:none;buildplatform:none;crc:0");
    }
    return engine_leave_quietly(rc);
}

dcgmReturn_t dcgmVersionInfo(dcgmVersionInfo_t *v) { return fill_version(engine_enter_free("dcgmVersionInfo"), v); }

dcgmReturn_t dcgmHostengineVersionInfo(dcgmHandle_t pDcgmHandle, dcgmVersionInfo_t *v) { return fill_version(engine_enter("dcgmHostengineVersionInfo", pDcgmHandle), v); }

dcgmReturn_t dcgmIntrospectGetHostengineMemoryUsage(dcgmHandle_t pDcgmHandle, dcgmIntrospectMemory_t *m, int waitIfNoData)
{
    dcgmReturn_t rc = engine_enter("dcgmIntrospectGetHostengineMemoryUsage", pDcgmHandle);
    (void)waitIfNoData;
    if (rc == DCGM_ST_OK) {
        m->bytesUsed = 25 * 1024 * 1024;
    }
    return engine_leave_quietly(rc);
}

dcgmReturn_t dcgmIntrospectGetHostengineCpuUtilization(dcgmHandle_t pDcgmHandle, dcgmIntrospectCpuUtil_t *c, int waitIfNoData)
{
    dcgmReturn_t rc = engine_enter("dcgmIntrospectGetHostengineCpuUtilization", pDcgmHandle);
    (void)waitIfNoData;
    if (rc == DCGM_ST_OK) {
        c->kernel = 0.001;
        c->user = 0.002;
        c->total = 0.003;
    }
    return engine_leave_quietly(rc);
}

static dcgmReturn_t set_detached(const char *symbol, dcgmHandle_t handle, bool detached)
{
    dcgmReturn_t rc = engine_enter(symbol, handle);
    if (rc == DCGM_ST_OK) {
        engine.detached = detached;
    }
    return engine_leave_quietly(rc);
}

dcgmReturn_t dcgmAttachDriver(dcgmHandle_t pDcgmHandle) { return set_detached("dcgmAttachDriver", pDcgmHandle, false); }
dcgmReturn_t dcgmDetachDriver(dcgmHandle_t pDcgmHandle) { return set_detached("dcgmDetachDriver", pDcgmHandle, true); }

/* --- there, but not modelled ------------------------------------------------------------------------------------------ */

static dcgmReturn_t not_modelled(const char *symbol, dcgmHandle_t handle)
{
    dcgmReturn_t rc = engine_enter(symbol, handle);
    return engine_leave_quietly(rc == DCGM_ST_OK ? DCGM_ST_NOT_SUPPORTED : rc);
}

dcgmReturn_t dcgmGetCpuHierarchy(dcgmHandle_t dcgmHandle, dcgmCpuHierarchy_v1 *h)
{
    (void)h;
    return not_modelled("dcgmGetCpuHierarchy", dcgmHandle);
}

dcgmReturn_t dcgmGetCpuHierarchy_v2(dcgmHandle_t dcgmHandle, dcgmCpuHierarchy_v2 *h)
{
    (void)h;
    return not_modelled("dcgmGetCpuHierarchy_v2", dcgmHandle);
}

dcgmReturn_t dcgmRunDiagnostic(dcgmHandle_t pDcgmHandle, dcgmGpuGrp_t groupId, dcgmDiagnosticLevel_t diagLevel, dcgmDiagResponse_v12 *diagResponse)
{
    (void)groupId;
    (void)diagLevel;
    (void)diagResponse;
    return not_modelled("dcgmRunDiagnostic", pDcgmHandle);
}

dcgmReturn_t dcgmWatchPidFields(dcgmHandle_t pDcgmHandle, dcgmGpuGrp_t groupId, long long updateFreq, double maxKeepAge, int maxKeepSamples)
{
    dcgmGroupEntityPair_t entities[DCGM_GROUP_MAX_ENTITIES_V2];
    dcgmReturn_t rc = engine_enter("dcgmWatchPidFields", pDcgmHandle);
    (void)updateFreq;
    (void)maxKeepAge;
    (void)maxKeepSamples;
    if (rc == DCGM_ST_OK && group_entities(groupId, entities) < 0) {
        rc = DCGM_ST_NOT_CONFIGURED;
    }
    return engine_leave_quietly(rc);
}

dcgmReturn_t dcgmGetPidInfo(dcgmHandle_t pDcgmHandle, dcgmGpuGrp_t groupId, dcgmPidInfo_t *pidInfo)
{
    dcgmReturn_t rc = engine_enter("dcgmGetPidInfo", pDcgmHandle);
    (void)groupId;
    (void)pidInfo;
    return engine_leave_quietly(rc == DCGM_ST_OK ? DCGM_ST_NO_DATA : rc); /* no processes are modelled */
}

/* --- errors in words -------------------------------------------------------------------------------------------------------- */

const char *errorString(dcgmReturn_t result)
{
    static const struct {
        dcgmReturn_t code;
        const char *text;
    } texts[] = {
        { DCGM_ST_OK, "Success" },
        { DCGM_ST_BADPARAM, "Bad parameter passed to function" },
        { DCGM_ST_GENERIC_ERROR, "Generic unspecified error" },
        { DCGM_ST_MEMORY, "Out of memory error" },
        { DCGM_ST_NOT_CONFIGURED, "Setting not configured" },
        { DCGM_ST_NOT_SUPPORTED, "This request is not supported" },
        { DCGM_ST_INIT_ERROR, "DCGM initialization error" },
        { DCGM_ST_NVML_ERROR, "NVML error" },
        { DCGM_ST_PENDING, "Object is in a pending state" },
        { DCGM_ST_UNINITIALIZED, "Object is in an undefined state" },
        { DCGM_ST_TIMEOUT, "Timeout" },
        { DCGM_ST_VER_MISMATCH, "API version mismatch" },
        { DCGM_ST_UNKNOWN_FIELD, "Unknown field identifier" },
        { DCGM_ST_NO_DATA, "No data available" },
        { DCGM_ST_STALE_DATA, "Only stale data available" },
        { DCGM_ST_NOT_WATCHED, "Field is not being watched" },
        { DCGM_ST_NO_PERMISSION, "No permission" },
        { DCGM_ST_GPU_IS_LOST, "GPU is lost" },
        { DCGM_ST_RESET_REQUIRED, "GPU requires reset" },
        { DCGM_ST_CONNECTION_NOT_VALID, "Host engine connection invalid/disconnected" },
        { DCGM_ST_GPU_NOT_SUPPORTED, "This GPU is not supported by DCGM" },
        { DCGM_ST_GROUP_INCOMPATIBLE, "The GPUs of the provided group are not compatible with each other for the requested operation" },
        { DCGM_ST_MAX_LIMIT, "Max limit reached for the object" },
        { DCGM_ST_LIBRARY_NOT_FOUND, "DCGM library could not be found" },
        { DCGM_ST_DUPLICATE_KEY, "Duplicate Key passed to function" },
        { DCGM_ST_REQUIRES_ROOT, "The requested operation cannot be performed when the host engine is running as non-root" },
        { DCGM_ST_INSUFFICIENT_SIZE, "Insufficient size" },
        { DCGM_ST_MODULE_NOT_LOADED, "This request is serviced by a module of DCGM that is not currently loaded" },
        { DCGM_ST_IN_USE, "The requested operation could not be completed because the affected resource is in use" },
        { DCGM_ST_PROFILING_NOT_SUPPORTED, "Profiling is not supported for this group of GPUs or GPU" },
        { DCGM_ST_PROFILING_LIBRARY_ERROR, "The third-party Profiling module returned an unrecoverable error" },
        { DCGM_ST_PROFILING_MULTI_PASS, "The requested profiling metrics cannot be collected in a single pass" },
        { DCGM_ST_INSTANCE_NOT_FOUND, "The specified GPU instance does not exist" },
        { DCGM_ST_COMPUTE_INSTANCE_NOT_FOUND, "The specified GPU compute instance does not exist" },
        { DCGM_ST_PAUSED, "The hostengine and all modules are paused" },
        { DCGM_ST_NVML_NOT_LOADED, "Cannot perform the requested operation because NVML isn't loaded" },
        { DCGM_ST_GPUS_DETACHED, "GPUs are detached" },
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (texts[i].code == result) {
            return texts[i].text;
        }
    }
    return "Unknown error";
}
