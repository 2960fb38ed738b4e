/* What the files of the simulated NVML share. */
#ifndef GPUSIM_NVML_LIB_H
#define GPUSIM_NVML_LIB_H

#define _GNU_SOURCE
#include "model.h"
#include "nvml.h"

#define EXPORT __attribute__((visibility("default")))
#define NO_ID  0xFFFFFFFFu

/* A handle is the GPU, or an instance of it as long as that one lives. */
struct nvmlDevice_st {
    unsigned gpu;
    int gi, ci;
    int64_t created_us; /* of the GPU instance */
    struct nvmlDevice_st *next;
};

struct nvmlGpuInstance_st {
    struct nvmlDevice_st at;
};

/* What a handle means now. */
typedef struct {
    const gpusim_gpu_t *gpu;
    const gpusim_epoch *epoch;
    const gpusim_gi *gi; /* NULL: the GPU itself */
    const gpusim_ci *ci;
    int gi_id, ci_id;    /* GPUSIM_WHOLE: none */
} target;

/* Lock the model; anything but success is the call's answer. Each needs its done. The second
 * resolves a handle, the third refuses one of an instance. */
nvmlReturn_t nvmlsim_begin(const char *symbol);
nvmlReturn_t nvmlsim_begin_device(const char *symbol, nvmlDevice_t device, target *t);
nvmlReturn_t nvmlsim_begin_gpu(const char *symbol, nvmlDevice_t device, target *t);
nvmlReturn_t nvmlsim_done(nvmlReturn_t rc);
/* The one handle of an entity; NULL when memory is out. */
struct nvmlDevice_st *nvmlsim_handle(unsigned gpu, int gi, int ci, int64_t created_us);
/* What a "blank" line makes of a field (by DCGM's id) of an entity. */
nvmlReturn_t nvmlsim_overridden(const target *t, unsigned field, double *value);

/* Ends a getter of one value, known by DCGM's field. */
#define DONE_VALUE(rc, t, field, out, type, expression)                \
    do {                                                               \
        double value_ = 0;                                             \
        if ((rc) == NVML_SUCCESS) {                                    \
            value_ = (double)(expression);                             \
            (rc) = nvmlsim_overridden(&(t), (field), &value_);         \
        }                                                              \
        if ((rc) == NVML_SUCCESS) {                                    \
            *(out) = (type)value_;                                     \
        }                                                              \
        return nvmlsim_done(rc);                                       \
    } while (0)

#endif
