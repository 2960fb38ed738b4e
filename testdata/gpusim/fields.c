/* Meta data of every field in go-dcgm's dcgm_fields.h. Names come from that header (fields.awk);
 * type and level, which it doesn't have, from the tables below for the fields we compute, and
 * from the name for the others. Levels as in NVIDIA/DCGM 4.6 dcgmlib/src/dcgm_fields.cpp. */
#include "engine.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define MAX_FIELD 2048

static dcgm_field_meta_t metas[MAX_FIELD];
static dcgm_field_output_format_t format = { .shortName = "", .unit = "", .width = 10 };

static const struct {
    unsigned short id;
    const char *name;
} names[] = {
#define FIELD(id, name) { id, name },
#include "fields_gen.h"
#undef FIELD
};

/* Ranges of fields that differ from int64 of a GPU; later lines win. */
static const struct {
    unsigned short first, last;
    char type; /* 0: as the name says */
    dcgm_field_entity_group_t level;
} kinds[] = {
    { 1, 2, 's', DCGM_FE_NONE },       { 3, 3, 's', DCGM_FE_NONE },       { 4, 6, 'i', DCGM_FE_NONE },
    { 50, 50, 's', DCGM_FE_GPU_CI },   { 51, 51, 's', DCGM_FE_GPU },      { 53, 53, 's', DCGM_FE_GPU },
    { 54, 54, 's', DCGM_FE_GPU_CI },   { 56, 57, 's', DCGM_FE_GPU },      { 60, 62, 'b', DCGM_FE_NONE },
    { 64, 64, 'b', DCGM_FE_NONE },     { 68, 68, 's', DCGM_FE_GPU_CI },   { 75, 77, 'b', DCGM_FE_GPU },
    { 80, 82, 's', DCGM_FE_GPU },      { 85, 85, 's', DCGM_FE_GPU },      { 91, 91, 'b', DCGM_FE_NONE },
    { 130, 130, 'b', DCGM_FE_GPU },    { 155, 155, 'd', DCGM_FE_GPU },    { 157, 157, 'd', DCGM_FE_GPU },
    { 160, 164, 'd', DCGM_FE_GPU },    { 165, 167, 'b', DCGM_FE_GPU },    { 172, 172, 's', DCGM_FE_GPU },
    { 205, 205, 'b', DCGM_FE_GPU },    { 230, 230, 'i', DCGM_FE_GPU_CI }, { 250, 253, 'i', DCGM_FE_GPU_I },
    { 254, 254, 'd', DCGM_FE_GPU_I },  { 350, 363, 's', DCGM_FE_GPU },    { 501, 510, 'b', DCGM_FE_GPU },
    { 520, 534, 0, DCGM_FE_VGPU },     { 701, 707, 'i', DCGM_FE_SWITCH }, { 780, 824, 'i', DCGM_FE_LINK },
    { 856, 878, 'i', DCGM_FE_SWITCH }, { 1001, 1004, 'd', DCGM_FE_GPU_CI }, { 1005, 1005, 'd', DCGM_FE_GPU_I },
    { 1006, 1008, 'd', DCGM_FE_GPU_CI }, { 1009, 1012, 'i', DCGM_FE_GPU }, { 1013, 1016, 'd', DCGM_FE_GPU_CI },
    { 1017, 1034, 'd', DCGM_FE_GPU },  { 1100, 1141, 0, DCGM_FE_CPU },    { 1216, 1216, 'd', DCGM_FE_GPU },
    { 1218, 1218, 'd', DCGM_FE_GPU },  { 1301, 1310, 'i', DCGM_FE_CONNECTX }, { 1508, 1509, 'i', DCGM_FE_LINK },
    { 1502, 1503, 'i', DCGM_FE_NONE }, { 1525, 1533, 'i', DCGM_FE_LINK },
};

/* Names that stayed behind when 4.6 renamed: dcgm-exporter and others show them. */
static char type_of_name(const char *name)
{
    static const char *strings[] = { "_NAME", "_VERSION", "_SERIAL", "_UUID", "_GUID", "_SERIAL_NUMBER", "_VENDOR", "_MODEL", "_CLASS", "_LICENSE", "_VM_ID" };
    static const char *doubles[] = { "_RATIO", "_WATTS", "CPU_TEMP_CELSIUS", "POWER_UTIL_CURRENT" };
    size_t length = strlen(name);
    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++) {
        size_t n = strlen(strings[i]);
        if (length >= n && strcmp(name + length - n, strings[i]) == 0) {
            return DCGM_FT_STRING;
        }
    }
    for (size_t i = 0; i < sizeof doubles / sizeof *doubles; i++) {
        if (strstr(name, doubles[i]) != NULL) {
            return DCGM_FT_DOUBLE;
        }
    }
    return DCGM_FT_INT64;
}

static void fill_kinds(dcgm_field_meta_t *m)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (m->fieldId >= kinds[i].first && m->fieldId <= kinds[i].last) {
            m->fieldType = kinds[i].type ? kinds[i].type : m->fieldType;
            m->entityLevel = kinds[i].level;
        }
    }
}

static void fill_metas(void)
{
    if (metas[1].fieldId != 0) {
        return;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        dcgm_field_meta_t *m = &metas[names[i].id];
        const char *tag = names[i].name + strlen("DCGM_FI_");
        m->fieldId = names[i].id;
        m->entityLevel = DCGM_FE_GPU;
        /* GPU_UTIL_RATIO kept its whole percents when it was renamed */
        m->fieldType = names[i].id == 203 ? DCGM_FT_INT64 : type_of_name(tag);
        fill_kinds(m);
        m->size = m->fieldType == DCGM_FT_STRING || m->fieldType == DCGM_FT_BINARY ? 0 : 8;
        m->scope = m->entityLevel == DCGM_FE_NONE ? DCGM_FS_GLOBAL : DCGM_FS_ENTITY;
        m->valueFormat = &format;
        for (size_t k = 0; tag[k] != '\0' && k + 1 < sizeof m->tag; k++) {
            m->tag[k] = (char)tolower((unsigned char)tag[k]);
        }
    }
}

const dcgm_field_meta_t *field_meta(unsigned short field)
{
    fill_metas();
    return field < MAX_FIELD && metas[field].fieldId != 0 ? &metas[field] : NULL;
}

bool field_is_profiling(unsigned short field) { return (field >= 1001 && field <= 1099) || field == 1532 || field == 1533; }

int DcgmFieldsInit(void)
{
    gpusim_enter("DcgmFieldsInit");
    fill_metas();
    gpusim_leave();
    return 0;
}

int DcgmFieldsTerm(void)
{
    gpusim_enter("DcgmFieldsTerm");
    gpusim_leave();
    return 0;
}

dcgm_field_meta_p DcgmFieldGetById(unsigned short fieldId)
{
    gpusim_enter("DcgmFieldGetById");
    const dcgm_field_meta_t *m = field_meta(fieldId);
    gpusim_leave();
    return m;
}
