#define _GNU_SOURCE
#include "shim.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int (*gl_callback)(int32_t group, uint32_t entity, gl_value_v1 *values, int count, void *user);

static struct {
    const char *(*error_string)(int);
    int (*init)(void);
    int (*shutdown)(void);
    int (*connect_v2)(const char *, gl_connect_v2 *, uintptr_t *);
    int (*connect_v3)(const char *, gl_connect_v3 *, uintptr_t *);
    int (*disconnect)(uintptr_t);
    int (*all_devices)(uintptr_t, unsigned *, int *);
    int (*hierarchy)(uintptr_t, gl_hierarchy *);
    int (*latest)(uintptr_t, gl_entity *, unsigned, uint16_t *, unsigned, unsigned, gl_value_v2 *);
    int (*since)(uintptr_t, uintptr_t, uintptr_t, long long, long long *, gl_callback, void *);
} fn;

void *gl_open(const char *path, char *error, size_t error_size)
{
    void *lib = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    if (lib == NULL) {
        snprintf(error, error_size, "%s", dlerror());
    }
    return lib;
}

int gl_publish(void *lib, const char *path, const char *soname)
{
    void *found = dlopen(soname, RTLD_LAZY | RTLD_NOLOAD);
    if (found != NULL) {
        dlclose(found);
    }
    return found == lib && dlopen(path, RTLD_LAZY | RTLD_GLOBAL | RTLD_NOLOAD) == lib;
}

void gl_close(void *lib) { dlclose(lib); }

int gl_has(void *lib, const char *symbol) { return dlsym(lib, symbol) != NULL; }

void gl_bind(void *lib)
{
    *(void **)&fn.error_string = dlsym(lib, "errorString");
    *(void **)&fn.init = dlsym(lib, "dcgmInit");
    *(void **)&fn.shutdown = dlsym(lib, "dcgmShutdown");
    *(void **)&fn.connect_v2 = dlsym(lib, "dcgmConnect_v2");
    *(void **)&fn.connect_v3 = dlsym(lib, "dcgmConnect_v3");
    *(void **)&fn.disconnect = dlsym(lib, "dcgmDisconnect");
    *(void **)&fn.all_devices = dlsym(lib, "dcgmGetAllDevices");
    *(void **)&fn.hierarchy = dlsym(lib, "dcgmGetGpuInstanceHierarchy");
    *(void **)&fn.latest = dlsym(lib, "dcgmEntitiesGetLatestValues");
    *(void **)&fn.since = dlsym(lib, "dcgmGetValuesSince_v2");
}

const char *gl_error_string(int code) { return fn.error_string == NULL ? "" : fn.error_string(code); }
int gl_init(void) { return fn.init(); }
int gl_shutdown(void) { return fn.shutdown(); }
int gl_disconnect(uintptr_t handle) { return fn.disconnect(handle); }
int gl_devices(uintptr_t handle, unsigned ids[GL_MAX_DEVICES], int *count) { return fn.all_devices(handle, ids, count); }

int gl_connect(const char *address, int unix_socket, unsigned timeout_ms, uintptr_t *handle)
{
    gl_connect_v2 params = { GL_VERSION(gl_connect_v2, 2), 0, timeout_ms, (uint32_t)unix_socket };
    return fn.connect_v2(address, &params, handle);
}

int gl_connect_string(const char *address, unsigned timeout_ms, uintptr_t *handle)
{
    gl_connect_v3 params = { GL_VERSION(gl_connect_v3, 1), 0, timeout_ms };
    return fn.connect_v3(address, &params, handle);
}

#define FNV_START 14695981039346656037u

static uint64_t fnv1a(uint64_t hash, const void *bytes, size_t n)
{
    for (const unsigned char *b = bytes, *end = b + n; b < end; b++) {
        hash = (hash ^ *b) * 1099511628211u;
    }
    return hash;
}

int gl_hierarchy_mark(uintptr_t handle, gl_buffer *b, uint64_t *mark)
{
    if (b->hierarchy == NULL && (b->hierarchy = malloc(sizeof *b->hierarchy)) == NULL) {
        return GL_NO_MARK;
    }
    gl_hierarchy *h = b->hierarchy;
    h->version = GL_VERSION(gl_hierarchy, 2);
    h->count = 0;
    int rc = fn.hierarchy(handle, h);
    if (rc != 0) {
        return rc;
    }
    uint64_t hash = FNV_START;
    unsigned n = h->count < GL_MAX_INSTANCES ? h->count : GL_MAX_INSTANCES;
    for (unsigned i = 0; i < n; i++) {
        const gl_instance *in = &h->instances[i];
        const uint32_t words[] = { (uint32_t)in->entity.group, in->entity.id, (uint32_t)in->parent.group, in->parent.id,
            in->info[0], in->info[1], in->info[2], in->info[3], in->info[4] };
        hash = fnv1a(hash, words, sizeof words);
        hash = fnv1a(hash, in->gpu_uuid, strnlen(in->gpu_uuid, sizeof in->gpu_uuid));
    }
    *mark = fnv1a(hash, &h->count, sizeof h->count);
    return 0;
}

/* --- packing ------------------------------------------------------------- */

static uint64_t pack_value(uint16_t type, const char *value)
{
    uint64_t bits = 0;
    if (type != GL_TYPE_STRING) {
        memcpy(&bits, value, sizeof bits);
        return bits;
    }
    if (value[0] == '\0' || strncmp(value, "<<<", 3) == 0) {
        return 0;
    }
    return fnv1a(FNV_START, value, strnlen(value, sizeof ((gl_value_v2 *)0)->value));
}

static int reserve(gl_buffer *b, size_t records)
{
    if (records <= b->cap) {
        return 1;
    }
    size_t cap = b->cap * 2 > records ? b->cap * 2 : records;
    gl_record *grown = records > GL_MAX_RECORDS ? NULL : realloc(b->records, cap * sizeof *grown);
    if (grown == NULL) {
        b->failed = 1;
        return 0;
    }
    b->records = grown;
    b->cap = cap;
    return 1;
}

int gl_latest(uintptr_t handle, gl_buffer *b, gl_entity *entities, unsigned n, uint16_t *fields, unsigned m)
{
    size_t count = (size_t)n * m;
    b->count = 0;
    b->failed = 0;
    if (count > b->raw_cap) {
        gl_value_v2 *grown = realloc(b->raw, count * sizeof *grown);
        if (grown == NULL) {
            b->failed = 1;
            return 0;
        }
        b->raw = grown;
        b->raw_cap = count;
    }
    if (!reserve(b, count)) {
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        b->raw[i].version = 0; /* stays where the library writes nothing */
    }
    int rc = fn.latest(handle, entities, n, fields, m, 0, b->raw);
    for (size_t i = 0; rc == 0 && i < count; i++) {
        const gl_value_v2 *v = &b->raw[i];
        if (v->version != 0) {
            b->records[b->count++] = (gl_record){ v->ts_us, pack_value(v->type, v->value), v->entity, v->status, v->field, (uint8_t)v->group, (uint8_t)v->type, 0 };
        }
    }
    return rc;
}

static int take(int32_t group, uint32_t entity, gl_value_v1 *values, int count, void *user)
{
    gl_buffer *b = user;
    if (count < 0 || !reserve(b, b->count + (size_t)count)) {
        return -1;
    }
    for (int i = 0; i < count; i++) {
        const gl_value_v1 *v = &values[i];
        b->records[b->count++] = (gl_record){ v->ts_us, pack_value(v->type, v->value), entity, v->status, v->field, (uint8_t)group, (uint8_t)v->type, 0 };
    }
    return 0;
}

int gl_since(uintptr_t handle, gl_buffer *b, uintptr_t group, uintptr_t fields, int64_t since_us)
{
    long long next = 0;
    b->count = 0;
    b->failed = 0;
    return fn.since(handle, group, fields, since_us, &next, take, b);
}

void gl_free(gl_buffer *b)
{
    free(b->raw);
    free(b->records);
    free(b->hierarchy);
    memset(b, 0, sizeof *b);
}
