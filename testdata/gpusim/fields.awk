# dcgm_fields.h -> one FIELD(id, "NAME") per field: the first name of each number.
/^#define DCGM_FI_[A-Z0-9_]+[ \t]+[0-9]+/ && !($3 in seen) && $3 > 0 && $2 !~ /(FIRST|LAST)_.*FIELD_ID|FIELDS_0_|MAX_FIELDS/ {
    seen[$3] = 1
    print "FIELD(" $3 ", \"" $2 "\")"
}
