/* What the parts of the configuration language share: a line cut into words, and its readers. */
#ifndef GPUSIM_LINES_H
#define GPUSIM_LINES_H

#include "state.h"

#define MAX_WORDS 64
#define ALL_GPUS  (-2)

typedef struct {
    int count;
    char *word[MAX_WORDS];
    const char *tail; /* of "at": the line that is to be carried out */
    char *error;
    size_t error_size;
} words;

typedef struct {
    int gpu, gi, ci; /* gpu may be ALL_GPUS; NVML ids */
} target;

/* Writes the reason why a line is refused, and answers -1. */
__attribute__((format(printf, 2, 3))) int gpusim_refuse(const words *w, const char *format, ...);
/* Read a word; name is what the message calls it. 0, or -1 with the reason. */
int gpusim_read_number(const words *w, const char *name, const char *s, double min, double max, double *out);
int gpusim_read_integer(const words *w, const char *name, const char *s, int64_t min, int64_t max, int64_t *out);
/* GPU, GPU/GI or GPU/GI/CI; "all" for every GPU. The GPU and its instance must exist now. */
int gpusim_read_target(const words *w, const char *s, bool instances, target *out);
bool gpusim_meant(target t, unsigned gpu);

#define EACH_GPU(t, g)                                                                                  \
    for (gpusim_gpu_t *g = gpusim_S.gpus; g < gpusim_S.gpus + gpusim_S.gpu_count; g++)             \
        if (gpusim_meant(t, g->id))

int gpusim_do_mig(const words *w);

#endif
