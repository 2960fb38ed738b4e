/* What model.c, profiles.c and config.c share of the model's inside. */
#ifndef GPUSIM_STATE_H
#define GPUSIM_STATE_H

#include "model.h"

typedef struct {
    char symbol[64];
    int code;
    long left; /* -1: for good */
} gpusim_fault;

typedef struct {
    unsigned first, last;
    int code;
} gpusim_field_fault;

typedef struct {
    int64_t at_us;
    unsigned order; /* of two lines of one instant the earlier one goes first */
    char *line;
} gpusim_scheduled;

typedef struct {
    int64_t from_us, to_us;
    unsigned gpu, field;
    int gi, ci;
    gpusim_read read;
    double garbage;
} gpusim_override;

typedef struct {
    char symbol[64];
    uint64_t count;
} gpusim_call;

#define LIST(type) struct { type *items; size_t count, cap; }

typedef struct {
    bool virtual_clock;
    int64_t start_us, now_us;
    uint64_t seed;
    unsigned gpu_count;
    gpusim_gpu_t gpus[GPUSIM_MAX_GPUS];
    LIST(gpusim_event) events;
    LIST(gpusim_fault) faults;
    LIST(gpusim_field_fault) field_faults;
    LIST(gpusim_scheduled) scheduled;
    LIST(gpusim_override) overrides;
    LIST(gpusim_call) calls;
    unsigned scheduled_ever;
    bool engine_up;
    unsigned engine_generation;
} gpusim_state;

extern gpusim_state gpusim_S;

/* Makes room for one more item in a LIST; ends the process when memory is out. */
void *gpusim_grow(void *items, size_t *count, size_t *cap, size_t size);
#define PUSH(list, item)                                                                              \
    do {                                                                                              \
        (list).items = gpusim_grow((list).items, &(list).count, &(list).cap, sizeof *(list).items); \
        (list).items[(list).count++] = (item);                                                       \
    } while (0)

/* Opens a new epoch of a GPU at the model's now (a copy of the last) and answers it. */
gpusim_epoch *gpusim_new_epoch(gpusim_gpu_t *g);
void gpusim_add_event(gpusim_event_kind kind, unsigned gpu, int gi, int ci, uint64_t value, int64_t t_us);
/* Drops all GPUs and what was said of them. */
void gpusim_drop_gpus(void);
void gpusim_make_gpus(unsigned count, const gpusim_model *model);
const gpusim_model *gpusim_find_model(const char *name);
/* Names of the models, separated by ", ", for messages. */
const char *gpusim_model_names(void);
const gpusim_profile *gpusim_find_profile(const gpusim_model *m, const char *name);
int64_t gpusim_real_us(void); /* the machine's clock */
uint64_t gpusim_hash(uint64_t a, uint64_t b);
void gpusim_format_uuid(char out[GPUSIM_UUID], const char *prefix, uint64_t a, uint64_t b, int version);
/* One line, the model locked. 0, or -1 with the reason. */
int gpusim_line(const char *line, char *error, size_t error_size);

#endif
