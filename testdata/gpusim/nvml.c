/* libnvidia-ml.so.1 over the model: as much of NVML as a reader of GPUs, MIG instances, GPM
 * and XIDs calls. Compiled against NVIDIA's own nvml.h, as go-nvml brings it.
 *
 * What real drivers do is kept where it bites: a GPU that is lost answers GPU_IS_LOST and is
 * gone from the indices after the next nvmlInit; handles of MIG devices die with them; after
 * a reload of the driver every call answers UNINITIALIZED until nvmlInit, which answers
 * DRIVER_NOT_LOADED for as long as the driver is away; utilisation and remapped rows are not
 * supported with MIG; GPM samples belong to a GPU or a GPU instance. */
#include "nvml_lib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    unsigned inits;
    size_t reloads;
    unsigned attached[GPUSIM_MAX_GPUS], attached_count; /* index -> GPU, as of nvmlInit */
    struct nvmlDevice_st *handles;                      /* never freed: callers keep them */
} lib;

/* --- call protocol --------------------------------------------------------------------------- */

static size_t driver_reloads(void)
{
    size_t count, n = 0;
    const gpusim_event *e = gpusim_events(&count);
    for (size_t i = 0; i < count; i++) {
        n += e[i].kind == GPUSIM_BIND && e[i].value == 1;
    }
    return n;
}

nvmlReturn_t nvmlsim_begin(const char *symbol)
{
    int forced = gpusim_enter(symbol);
    if (forced != 0) {
        return (nvmlReturn_t)forced;
    }
    return lib.inits == 0 || lib.reloads != driver_reloads() ? NVML_ERROR_UNINITIALIZED : NVML_SUCCESS;
}

nvmlReturn_t nvmlsim_done(nvmlReturn_t rc)
{
    gpusim_leave();
    return rc;
}

static nvmlReturn_t resolve(const struct nvmlDevice_st *d, target *t)
{
    const gpusim_gpu_t *g = d == NULL ? NULL : gpusim_gpu(d->gpu);
    if (g == NULL) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    const gpusim_epoch *e = gpusim_epoch_now(g);
    *t = (target){ .gpu = g, .epoch = e, .gi_id = d->gi, .ci_id = d->ci };
    t->gi = gpusim_find_gi(e, d->gi);
    t->ci = gpusim_find_ci(t->gi, d->ci);
    if (e->lost) {
        return NVML_ERROR_GPU_IS_LOST;
    }
    bool there = d->gi == GPUSIM_WHOLE || (t->gi != NULL && t->gi->created_us == d->created_us && (d->ci == GPUSIM_WHOLE || t->ci != NULL));
    return there ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlsim_begin_device(const char *symbol, nvmlDevice_t device, target *t)
{
    nvmlReturn_t rc = nvmlsim_begin(symbol);
    return rc == NVML_SUCCESS ? resolve(device, t) : rc;
}

nvmlReturn_t nvmlsim_begin_gpu(const char *symbol, nvmlDevice_t device, target *t)
{
    nvmlReturn_t rc = nvmlsim_begin_device(symbol, device, t);
    return rc == NVML_SUCCESS && t->gi != NULL ? NVML_ERROR_NOT_SUPPORTED : rc;
}

static nvmlReturn_t put(char *out, unsigned length, const char *text)
{
    return (unsigned)snprintf(out, length, "%s", text) < length ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

struct nvmlDevice_st *nvmlsim_handle(unsigned gpu, int gi, int ci, int64_t created_us)
{
    for (struct nvmlDevice_st *h = lib.handles; h != NULL; h = h->next) {
        if (h->gpu == gpu && h->gi == gi && h->ci == ci && h->created_us == created_us) {
            return h;
        }
    }
    struct nvmlDevice_st *h = calloc(1, sizeof(struct nvmlGpuInstance_st));
    if (h != NULL) {
        *h = (struct nvmlDevice_st){ gpu, gi, ci, created_us, lib.handles };
        lib.handles = h;
    }
    return h;
}

nvmlReturn_t nvmlsim_overridden(const target *t, unsigned field, double *value)
{
    double garbage;
    switch (gpusim_read_override(t->gpu->id, t->gi_id, t->ci_id, field, gpusim_now_us(), &garbage)) {
    case GPUSIM_READ_OK: return NVML_SUCCESS;
    case GPUSIM_READ_GARBAGE: *value = garbage; return NVML_SUCCESS;
    case GPUSIM_READ_NOT_WATCHED: return NVML_ERROR_NO_DATA;
    default: return NVML_ERROR_NOT_SUPPORTED;
    }
}

/* --- library and system ------------------------------------------------------------------------ */

EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
    (void)flags;
    int forced = gpusim_enter("nvmlInit_v2");
    if (forced != 0) {
        return nvmlsim_done((nvmlReturn_t)forced);
    }
    const gpusim_gpu_t *first = gpusim_gpu(0);
    if (first != NULL && gpusim_epoch_now(first)->blank_until_us > gpusim_now_us()) {
        return nvmlsim_done(NVML_ERROR_DRIVER_NOT_LOADED);
    }
    lib.inits++;
    lib.reloads = driver_reloads();
    lib.attached_count = 0;
    for (unsigned i = 0; i < gpusim_gpu_count(); i++) {
        if (!gpusim_epoch_now(gpusim_gpu(i))->lost) {
            lib.attached[lib.attached_count++] = i;
        }
    }
    return nvmlsim_done(NVML_SUCCESS);
}

EXPORT nvmlReturn_t nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

EXPORT nvmlReturn_t nvmlShutdown(void)
{
    int forced = gpusim_enter("nvmlShutdown");
    nvmlReturn_t rc = forced != 0 ? (nvmlReturn_t)forced : lib.inits == 0 ? NVML_ERROR_UNINITIALIZED : NVML_SUCCESS;
    if (rc == NVML_SUCCESS) {
        lib.inits--;
    }
    return nvmlsim_done(rc);
}

EXPORT const char *nvmlErrorString(nvmlReturn_t result)
{
    switch (result) {
    case NVML_SUCCESS: return "The operation was successful";
    case NVML_ERROR_UNINITIALIZED: return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT: return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
    case NVML_ERROR_NO_PERMISSION: return "Insufficient Permissions";
    case NVML_ERROR_NOT_FOUND: return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE: return "Insufficient Size";
    case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case NVML_ERROR_TIMEOUT: return "Timeout";
    case NVML_ERROR_GPU_IS_LOST: return "GPU is lost";
    case NVML_ERROR_LIB_RM_VERSION_MISMATCH: return "Driver/library version mismatch";
    case NVML_ERROR_NO_DATA: return "No data";
    default: return "Unknown Error";
    }
}

EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
    nvmlReturn_t rc = nvmlsim_begin(__func__);
    return nvmlsim_done(rc == NVML_SUCCESS ? put(version, length, gpusim_driver_version()) : rc);
}

EXPORT nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
    nvmlReturn_t rc = nvmlsim_begin(__func__);
    char text[64];
    snprintf(text, sizeof text, "12.%s", gpusim_driver_version());
    return nvmlsim_done(rc == NVML_SUCCESS ? put(version, length, text) : rc);
}

EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    nvmlReturn_t rc = nvmlsim_begin(__func__);
    *version = 12080;
    return nvmlsim_done(rc);
}

EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version) { return nvmlSystemGetCudaDriverVersion_v2(version); }

/* --- handles and identity ------------------------------------------------------------------------ */

EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
    nvmlReturn_t rc = nvmlsim_begin(__func__);
    *count = rc == NVML_SUCCESS ? lib.attached_count : 0;
    return nvmlsim_done(rc);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
    nvmlReturn_t rc = nvmlsim_begin(__func__);
    if (rc != NVML_SUCCESS || index >= lib.attached_count) {
        return nvmlsim_done(rc == NVML_SUCCESS ? NVML_ERROR_INVALID_ARGUMENT : rc);
    }
    const gpusim_gpu_t *g = gpusim_gpu(lib.attached[index]);
    if (g == NULL || gpusim_epoch_now(g)->lost) {
        return nvmlsim_done(NVML_ERROR_GPU_IS_LOST);
    }
    *device = nvmlsim_handle(g->id, GPUSIM_WHOLE, GPUSIM_WHOLE, 0);
    return nvmlsim_done(*device == NULL ? NVML_ERROR_MEMORY : NVML_SUCCESS);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    nvmlReturn_t rc = nvmlsim_begin(__func__);
    if (rc != NVML_SUCCESS) {
        return nvmlsim_done(rc);
    }
    for (unsigned i = 0; i < lib.attached_count; i++) {
        const gpusim_gpu_t *g = gpusim_gpu(lib.attached[i]);
        const gpusim_epoch *e = g == NULL ? NULL : gpusim_epoch_now(g);
        if (g != NULL && strcmp(g->uuid, uuid) == 0) {
            *device = nvmlsim_handle(g->id, GPUSIM_WHOLE, GPUSIM_WHOLE, 0);
            return nvmlsim_done(e->lost ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS);
        }
        for (unsigned k = 0; e != NULL && k < e->gi_count; k++) {
            for (unsigned c = 0; c < e->gi[k].ci_count; c++) {
                if (strcmp(e->gi[k].ci[c].uuid, uuid) == 0) {
                    *device = nvmlsim_handle(g->id, (int)e->gi[k].nvml_id, (int)e->gi[k].ci[c].nvml_id, e->gi[k].created_us);
                    return nvmlsim_done(NVML_SUCCESS);
                }
            }
        }
    }
    return nvmlsim_done(NVML_ERROR_NOT_FOUND);
}

EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
    target t;
    nvmlReturn_t rc = nvmlsim_begin_device(__func__, device, &t);
    return nvmlsim_done(rc == NVML_SUCCESS ? put(uuid, length, t.ci != NULL ? t.ci->uuid : t.gpu->uuid) : rc);
}

/* "3g.40gb", or "1c.3g.40gb" for a part of it. */
static void profile_name(const target *t, char *out, size_t size)
{
    if (t->ci != NULL && t->ci->slices < t->gi->profile->slices) {
        snprintf(out, size, "%uc.%s", t->ci->slices, t->gi->profile->name);
    } else {
        snprintf(out, size, "%s", t->gi->profile->name);
    }
}

EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
    target t;
    char text[NVML_DEVICE_NAME_V2_BUFFER_SIZE], profile[32];
    nvmlReturn_t rc = nvmlsim_begin_device(__func__, device, &t);
    if (rc != NVML_SUCCESS) {
        return nvmlsim_done(rc);
    }
    snprintf(text, sizeof text, "%s", t.gpu->model->name);
    if (t.gi != NULL) {
        profile_name(&t, profile, sizeof profile);
        snprintf(text, sizeof text, "%s MIG %s", t.gpu->model->name, profile);
    }
    return nvmlsim_done(put(name, length, text));
}

EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
    target t;
    nvmlReturn_t rc = nvmlsim_begin_gpu(__func__, device, &t);
    for (unsigned i = 0; rc == NVML_SUCCESS && i < lib.attached_count; i++) {
        if (lib.attached[i] == t.gpu->id) {
            *index = i;
        }
    }
    return nvmlsim_done(rc);
}

EXPORT nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minor)
{
    target t;
    nvmlReturn_t rc = nvmlsim_begin_gpu(__func__, device, &t);
    DONE_VALUE(rc, t, 55, minor, unsigned, t.gpu->minor);
}

EXPORT nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char *serial, unsigned int length)
{
    target t;
    nvmlReturn_t rc = nvmlsim_begin_gpu(__func__, device, &t);
    return nvmlsim_done(rc == NVML_SUCCESS ? put(serial, length, t.gpu->serial) : rc);
}

EXPORT nvmlReturn_t nvmlDeviceGetVbiosVersion(nvmlDevice_t device, char *version, unsigned int length)
{
    target t;
    char text[32];
    nvmlReturn_t rc = nvmlsim_begin_gpu(__func__, device, &t);
    if (rc == NVML_SUCCESS) {
        snprintf(text, sizeof text, "96.00.%02X.00.01", t.gpu->model->pcie_gen);
        rc = put(version, length, text);
    }
    return nvmlsim_done(rc);
}

EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    target t;
    nvmlReturn_t rc = nvmlsim_begin_gpu(__func__, device, &t);
    if (rc != NVML_SUCCESS) {
        return nvmlsim_done(rc);
    }
    memset(pci, 0, sizeof *pci);
    pci->pciDeviceId = t.gpu->model->pci_device_id;
    sscanf(t.gpu->pci_bus_id, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device);
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%s", t.gpu->pci_bus_id + 4);
    return nvmlsim_done(put(pci->busId, sizeof pci->busId, t.gpu->pci_bus_id));
}

EXPORT nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    target t;
    nvmlReturn_t rc = nvmlsim_begin_device(__func__, device, &t);
    if (rc == NVML_SUCCESS) {
        *major = (int)t.gpu->model->cc_major;
        *minor = (int)t.gpu->model->cc_minor;
    }
    return nvmlsim_done(rc);
}

/* --- MIG -------------------------------------------------------------------------------------------- */

EXPORT nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
    target t;
    nvmlReturn_t rc = nvmlsim_begin_gpu(__func__, device, &t);
    if (rc == NVML_SUCCESS && t.gpu->model->slices == 0) {
        rc = NVML_ERROR_NOT_SUPPORTED;
    }
    if (rc == NVML_SUCCESS) {
        *current = *pending = t.epoch->mig;
    }
    return nvmlsim_done(rc);
}

EXPORT nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count)
{
    target t;
    nvmlReturn_t rc = nvmlsim_begin_gpu(__func__, device, &t);
    if (rc == NVML_SUCCESS) {
        *count = t.gpu->model->slices;
    }
    return nvmlsim_done(rc);
}

/* MIG devices are the compute instances; their indices have holes: each GPU instance keeps as
 * many indices as it has slices. */
EXPORT nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index, nvmlDevice_t *mig)
{
    target t;
    nvmlReturn_t rc = nvmlsim_begin_gpu(__func__, device, &t);
    if (rc != NVML_SUCCESS || !t.epoch->mig || index >= t.gpu->model->slices) {
        return nvmlsim_done(rc != NVML_SUCCESS ? rc : NVML_ERROR_INVALID_ARGUMENT);
    }
    for (unsigned i = 0, first = 0; i < t.epoch->gi_count; first += t.epoch->gi[i++].profile->slices) {
        const gpusim_gi *gi = &t.epoch->gi[i];
        if (index >= first && index < first + gi->ci_count) {
            *mig = nvmlsim_handle(t.gpu->id, (int)gi->nvml_id, (int)gi->ci[index - first].nvml_id, gi->created_us);
            return nvmlsim_done(*mig == NULL ? NVML_ERROR_MEMORY : NVML_SUCCESS);
        }
    }
    return nvmlsim_done(NVML_ERROR_NOT_FOUND);
}

EXPORT nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t mig, nvmlDevice_t *device)
{
    target t;
    nvmlReturn_t rc = nvmlsim_begin_device(__func__, mig, &t);
    if (rc == NVML_SUCCESS) {
        *device = nvmlsim_handle(t.gpu->id, GPUSIM_WHOLE, GPUSIM_WHOLE, 0);
    }
    return nvmlsim_done(rc);
}

EXPORT nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *is_mig)
{
    target t;
    nvmlReturn_t rc = nvmlsim_begin_device(__func__, device, &t);
    *is_mig = rc == NVML_SUCCESS && t.gi != NULL;
    return nvmlsim_done(rc);
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int *id)
{
    target t;
    nvmlReturn_t rc = nvmlsim_begin_device(__func__, device, &t);
    if (rc == NVML_SUCCESS && t.gi == NULL) {
        rc = NVML_ERROR_NOT_SUPPORTED;
    }
    *id = rc == NVML_SUCCESS ? t.gi->nvml_id : NO_ID;
    return nvmlsim_done(rc);
}

EXPORT nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned int *id)
{
    target t;
    nvmlReturn_t rc = nvmlsim_begin_device(__func__, device, &t);
    if (rc == NVML_SUCCESS && t.ci == NULL) {
        rc = NVML_ERROR_NOT_SUPPORTED;
    }
    *id = rc == NVML_SUCCESS ? t.ci->nvml_id : NO_ID;
    return nvmlsim_done(rc);
}

EXPORT nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *a)
{
    target t;
    nvmlReturn_t rc = nvmlsim_begin_device(__func__, device, &t);
    if (rc == NVML_SUCCESS && t.ci == NULL) {
        rc = NVML_ERROR_NOT_SUPPORTED;
    }
    if (rc == NVML_SUCCESS) {
        *a = (nvmlDeviceAttributes_t){ .multiprocessorCount = t.ci->sms, .gpuInstanceSliceCount = t.gi->profile->slices,
                                       .computeInstanceSliceCount = t.ci->slices, .memorySizeMB = t.gi->profile->memory_mib };
    }
    return nvmlsim_done(rc);
}

static const gpusim_profile *profile_by_enum(const gpusim_model *m, unsigned profile)
{
    for (unsigned i = 0; i < m->profile_count; i++) {
        if (m->profiles[i].nvml_enum == profile) {
            return &m->profiles[i];
        }
    }
    return NULL;
}

static nvmlReturn_t begin_profile(const char *symbol, nvmlDevice_t device, unsigned profile, const gpusim_profile **out)
{
    target t;
    nvmlReturn_t rc = nvmlsim_begin_gpu(symbol, device, &t);
    if (rc != NVML_SUCCESS || profile >= NVML_GPU_INSTANCE_PROFILE_COUNT) {
        return rc != NVML_SUCCESS ? rc : NVML_ERROR_INVALID_ARGUMENT;
    }
    *out = profile_by_enum(t.gpu->model, profile);
    return !t.epoch->mig || *out == NULL ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t device, unsigned int profile, nvmlGpuInstanceProfileInfo_t *info)
{
    const gpusim_profile *p;
    nvmlReturn_t rc = begin_profile(__func__, device, profile, &p);
    if (rc == NVML_SUCCESS) {
        *info = (nvmlGpuInstanceProfileInfo_t){ .id = p->nvml_id, .sliceCount = p->slices, .instanceCount = p->max_count,
                                                .multiprocessorCount = p->sms, .memorySizeMB = p->memory_mib };
    }
    return nvmlsim_done(rc);
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t device, unsigned int profile, nvmlGpuInstanceProfileInfo_v2_t *info)
{
    const gpusim_profile *p;
    nvmlReturn_t rc = begin_profile(__func__, device, profile, &p);
    if (rc == NVML_SUCCESS && info->version != nvmlGpuInstanceProfileInfo_v2) {
        rc = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    }
    if (rc == NVML_SUCCESS) {
        *info = (nvmlGpuInstanceProfileInfo_v2_t){ .version = info->version, .id = p->nvml_id, .sliceCount = p->slices, .instanceCount = p->max_count,
                                                   .multiprocessorCount = p->sms, .memorySizeMB = p->memory_mib };
        snprintf(info->name, sizeof info->name, "MIG %s", p->name);
    }
    return nvmlsim_done(rc);
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstances(nvmlDevice_t device, unsigned int profile_id, nvmlGpuInstance_t *instances, unsigned int *count)
{
    target t;
    nvmlReturn_t rc = nvmlsim_begin_gpu(__func__, device, &t);
    unsigned n = 0;
    for (unsigned i = 0; rc == NVML_SUCCESS && i < t.epoch->gi_count; i++) {
        const gpusim_gi *gi = &t.epoch->gi[i];
        if (gi->profile->nvml_id != profile_id) {
            continue;
        }
        instances[n++] = (struct nvmlGpuInstance_st *)nvmlsim_handle(t.gpu->id, (int)gi->nvml_id, GPUSIM_WHOLE, gi->created_us);
    }
    *count = n;
    return nvmlsim_done(rc);
}

EXPORT nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t instance, nvmlGpuInstanceInfo_t *info)
{
    target t;
    nvmlReturn_t rc = nvmlsim_begin_device(__func__, &instance->at, &t);
    if (rc == NVML_SUCCESS) {
        *info = (nvmlGpuInstanceInfo_t){ .device = nvmlsim_handle(t.gpu->id, GPUSIM_WHOLE, GPUSIM_WHOLE, 0), .id = t.gi->nvml_id,
                                         .profileId = t.gi->profile->nvml_id, .placement = { t.gi->placement, t.gi->profile->mem_slices } };
    }
    return nvmlsim_done(rc);
}
