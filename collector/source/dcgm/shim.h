/* The part of DCGM's C interface that is called once per slot, declared by
 * ourselves: abi_test.go holds it against the headers of go-dcgm. Functions are
 * found by dlsym, so that one that is missing is an error and not the end of the
 * process. */
#ifndef GPUTALLY_DCGM_SHIM_H
#define GPUTALLY_DCGM_SHIM_H

#include <stddef.h>
#include <stdint.h>

/* dcgmGroupEntityPair_t */
typedef struct {
    int32_t group; /* dcgm_field_entity_group_t */
    uint32_t id;
} gl_entity;

/* dcgmFieldValue_v1, as the callback of dcgmGetValuesSince_v2 gets it. */
typedef struct {
    uint32_t version;
    uint16_t field, type;
    int32_t status;
    int64_t ts_us;
    char value[4096];
} gl_value_v1;

/* dcgmFieldValue_v2, as dcgmEntitiesGetLatestValues writes it. */
typedef struct {
    uint32_t version;
    int32_t group;
    uint32_t entity;
    uint16_t field, type;
    int32_t status;
    uint32_t unused;
    int64_t ts_us;
    char value[4096];
} gl_value_v2;

/* dcgmConnectV2Params_v2 */
typedef struct {
    uint32_t version, persist, timeout_ms, unix_socket;
} gl_connect_v2;

/* dcgmConnectV3Params_v1 */
typedef struct {
    uint32_t version, persist, timeout_ms;
} gl_connect_v3;

#define GL_MAX_INSTANCES (32 * 14)

/* dcgmMigHierarchyInfo_v2; a GPU's place in info are five numbers. */
typedef struct {
    gl_entity entity, parent;
    char gpu_uuid[128];
    uint32_t info[5];
} gl_instance;

/* dcgmMigHierarchy_v2 */
typedef struct {
    uint32_t version, count;
    gl_instance instances[GL_MAX_INSTANCES];
} gl_hierarchy;

#define GL_VERSION(type, n) ((uint32_t)(sizeof(type) | (unsigned)(n) << 24))
#define GL_MAX_DEVICES 32
#define GL_MAX_RECORDS (1u << 20) /* 32 MiB: a longer history is truncated, which is reported */
#define GL_TYPE_STRING 's'

/* One value, packed. That of a string is its FNV-1a hash, which is 0 for a blank one. */
typedef struct {
    int64_t ts_us;
    uint64_t value; /* bits of the int64 or double */
    uint32_t entity;
    int32_t status;
    uint16_t field;
    uint8_t group, type;
    uint32_t pad;
} gl_record;

/* Buffers of a connection, reused from slot to slot. */
typedef struct {
    gl_value_v2 *raw;
    size_t raw_cap;
    gl_record *records;
    size_t cap, count;
    int failed; /* no memory, or more than GL_MAX_RECORDS */
    gl_hierarchy *hierarchy;
} gl_buffer;

/* Loads the library without exporting its symbols; on failure returns NULL, and the reason
 * in error. */
void *gl_open(const char *path, char *error, size_t error_size);
/* Exports the symbols of a loaded library to go-dcgm; returns whether it is found by soname. */
int gl_publish(void *lib, const char *path, const char *soname);
void gl_close(void *lib);
/* Returns whether the library has a symbol. */
int gl_has(void *lib, const char *symbol);
/* Looks up the functions below in the library. */
void gl_bind(void *lib);

const char *gl_error_string(int code);
int gl_init(void);
int gl_shutdown(void);
int gl_connect(const char *address, int unix_socket, unsigned timeout_ms, uintptr_t *handle);
int gl_connect_string(const char *address, unsigned timeout_ms, uintptr_t *handle);
int gl_disconnect(uintptr_t handle);
int gl_devices(uintptr_t handle, unsigned ids[GL_MAX_DEVICES], int *count);

/* Latest values of all fields of all entities, into b->records. */
int gl_latest(uintptr_t handle, gl_buffer *b, gl_entity *entities, unsigned n, uint16_t *fields, unsigned m);
/* Samples of a group's fields since an instant, into b->records. */
int gl_since(uintptr_t handle, gl_buffer *b, uintptr_t group, uintptr_t fields, int64_t since_us);
/* A hash of the MIG hierarchy; a result other than 0 means that there is none:
 * read the hierarchy itself. */
#define GL_NO_MARK 1
int gl_hierarchy_mark(uintptr_t handle, gl_buffer *b, uint64_t *mark);
void gl_free(gl_buffer *b);

#endif
