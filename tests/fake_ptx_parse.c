/* fake_ptx_parse.c - reads the text of a module of PTX: statement by statement, each instruction into what runs. */
#include "fake_ptx_module.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool ptx_complain(char *problem, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    if (!problem[0])
        vsnprintf(problem, PTX_PROBLEM, format, list);
    va_end(list);
    return false;
}

typedef struct symbol {
    char name[NAME];
    uint32_t number;
} symbol;

typedef struct symbols {
    symbol *all;
    uint32_t *places; /* by hash: 1 + an index; 0: free */
    size_t count, room;
} symbols;

typedef struct reader {
    char *text, *at;
    ptx_module *m;
    function *f;                                   /* that is being read */
    symbols registers, labels, variables, waiting; /* waiting: labels that branches name, with the branch */
    uint32_t call_arguments[MOST_ARGUMENTS];       /* instructions that store arguments of the next call */
    size_t call_count;
    char *problem;
} reader;

static uint32_t hash_of(const char *name)
{
    uint32_t hash = 2166136261u;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619u;
    return hash;
}

static void grow(symbols *s)
{
    s->room = s->room ? 2 * s->room : 256;
    s->all = realloc(s->all, s->room * sizeof *s->all);
    free(s->places);
    s->places = calloc(2 * s->room, sizeof *s->places);
    for (size_t i = 0; i < s->count; i++) {
        size_t place = hash_of(s->all[i].name) % (2 * s->room);
        while (s->places[place])
            place = (place + 1) % (2 * s->room);
        s->places[place] = (uint32_t)i + 1;
    }
}

/* Returns the number of a name; NULL: it has none. */
static uint32_t *find(const symbols *s, const char *name)
{
    if (s->room == 0)
        return NULL;
    size_t place = hash_of(name) % (2 * s->room);
    for (; s->places[place]; place = (place + 1) % (2 * s->room))
        if (strcmp(s->all[s->places[place] - 1].name, name) == 0)
            return &s->all[s->places[place] - 1].number;
    return NULL;
}

static void add(symbols *s, const char *name, uint32_t number)
{
    if (s->count == s->room)
        grow(s);
    snprintf(s->all[s->count].name, NAME, "%s", name);
    s->all[s->count].number = number;
    size_t place = hash_of(name) % (2 * s->room);
    while (s->places[place])
        place = (place + 1) % (2 * s->room);
    s->places[place] = (uint32_t)++s->count;
}

static void forget(symbols *s)
{
    free(s->all);
    free(s->places);
    *s = (symbols){0};
}

static uint32_t new_register(reader *r)
{
    return r->f->first_register + r->f->registers++;
}

/* Returns a register that is filled when a block begins. */
static uint32_t filled_register(reader *r, filling with, uint64_t value)
{
    function *f = r->f;
    for (size_t i = 0; i < f->filled_count; i++)
        if (f->filled[i].with == with && f->filled[i].value == value)
            return f->filled[i].number;
    if ((f->filled_count & (f->filled_count + 1)) == 0)
        f->filled = realloc(f->filled, 2 * (f->filled_count + 1) * sizeof *f->filled);
    f->filled[f->filled_count++] = (filled){new_register(r), with, value};
    return f->filled[f->filled_count - 1].number;
}

static bool number_in(const char *text, uint64_t *out)
{
    char *end;
    if (strncmp(text, "0f", 2) == 0 || strncmp(text, "0F", 2) == 0)
        *out = strtoul(text + 2, &end, 16);
    else
        *out = text[0] == '-' ? (uint64_t)strtoll(text, &end, 0) : strtoull(text, &end, 0);
    return end > text && *end == 0;
}

/* Returns the register of an operand: a register, a number, or the address of a variable. */
static uint32_t operand(reader *r, const char *text)
{
    static const struct {
        const char *name;
        filling with;
    } specials[] = {{"%tid.x", FILL_LANE},
                    {"%ntid.x", FILL_LANES},
                    {"%ctaid.x", FILL_GROUP},
                    {"%nctaid.x", FILL_GROUPS},
                    {"%globaltimer", FILL_TIME}};
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++)
        if (strcmp(text, specials[i].name) == 0)
            return filled_register(r, specials[i].with, 0);
    uint64_t value;
    uint32_t *known = find(text[0] == '%' ? &r->registers : &r->variables, text);
    if (text[0] == '%') {
        uint32_t number = known ? *known : new_register(r);
        if (!known)
            add(&r->registers, text, number);
        return number;
    }
    if (known)
        return filled_register(r, FILL_NUMBER, *known);
    if (!number_in(text, &value))
        ptx_complain(r->problem, "%s: what is %.60s?", r->f->name, text);
    return filled_register(r, FILL_NUMBER, value);
}

static instruction *new_instruction(ptx_module *m)
{
    if (m->code_count == m->code_room) {
        m->code_room = m->code_room ? 2 * m->code_room : 1024;
        m->code = realloc(m->code, m->code_room * sizeof *m->code);
    }
    instruction *i = &m->code[m->code_count++];
    *i = (instruction){0};
    return i;
}

/* Cuts a list at its commas, but not within brackets; removes blanks around. Returns how many operands there are. */
static size_t cut(char *list, char *out[], size_t most)
{
    size_t count = 0;
    int depth = 0;
    for (char *at = list; *list && count < most; at++) {
        depth += (*at == '{' || *at == '[' || *at == '(') - (*at == '}' || *at == ']' || *at == ')');
        if (*at && (*at != ',' || depth > 0))
            continue;
        char *next = *at ? at + 1 : at;
        *at = 0;
        while (*list == ' ')
            list++;
        for (char *end = list + strlen(list); end > list && end[-1] == ' ';)
            *--end = 0;
        if (*list)
            out[count++] = list;
        list = at = next;
        at--;
    }
    return count;
}

/* The registers of "{%a, %b}" or of one operand. */
static unsigned elements(reader *r, char *text, uint32_t out[4])
{
    char *names[4];
    size_t count = 1;
    if (text[0] == '{') {
        text[strlen(text) - 1] = 0;
        count = cut(text + 1, names, 4);
    } else {
        names[0] = text;
    }
    for (size_t i = 0; i < count; i++)
        out[i] = operand(r, names[i]);
    return (unsigned)count;
}

/* "[base+offset]" */
static uint32_t address(reader *r, char *text, int64_t *offset)
{
    *offset = 0;
    if (text[0] != '[' || text[strlen(text) - 1] != ']') {
        ptx_complain(r->problem, "%s: %.60s is no address", r->f->name, text);
        return 0;
    }
    text[strlen(text) - 1] = 0;
    char *plus = strchr(++text, '+');
    if (plus) {
        *plus = 0;
        *offset = strtoll(plus + 1, NULL, 0);
    }
    return operand(r, text);
}

static unsigned bytes_of_type(const char *type)
{
    unsigned bits = (unsigned)strtoul(type + 1, NULL, 10);
    return bits / 8;
}

static const char *last_part(const char *opcode)
{
    return strrchr(opcode, '.') + 1;
}

/* Parameters are registers: those of an entry are filled, those of another function set by whoever calls it. */
static bool read_parameter_access(reader *r, instruction *i, const char *opcode, char *operands[])
{
    bool loads = opcode[0] == 'l';
    char *name = operands[loads ? 1 : 0] + 1;
    name[strcspn(name, "+]")] = 0;
    i->kind = KIND_COMPUTE;
    i->compute = ptx_operation("mov.u64");
    if (!loads) { /* the next call says whose it is */
        if (r->call_count == MOST_ARGUMENTS)
            return ptx_complain(r->problem, "%s: too many arguments", r->f->name);
        r->call_arguments[r->call_count++] = (uint32_t)r->m->code_count - 1;
        i->of[0] = operand(r, operands[1]);
        return true;
    }
    i->to[0] = operand(r, operands[0]);
    uint32_t *number = find(&r->variables, name);
    if (!number)
        return ptx_complain(r->problem, "%s: no parameter %.60s", r->f->name, name);
    i->of[0] = r->f->is_entry ? filled_register(r, FILL_PARAMETER, *number) : r->f->parameter[*number];
    return true;
}

static bool read_access(reader *r, instruction *i, const char *opcode, char *operands[], size_t count)
{
    if (count != 2)
        return ptx_complain(r->problem, "%s: %.60s with %zu operands", r->f->name, opcode, count);
    if (strstr(opcode, ".param"))
        return read_parameter_access(r, i, opcode, operands);
    bool loads = opcode[0] == 'l';
    i->kind = loads ? KIND_LOAD : KIND_STORE;
    i->space = strstr(opcode, ".global")   ? SPACE_GLOBAL
               : strstr(opcode, ".shared") ? SPACE_SHARED
               : strstr(opcode, ".local")  ? SPACE_LOCAL
                                           : SPACE_GENERIC;
    i->bytes = bytes_of_type(last_part(opcode));
    i->is_signed = last_part(opcode)[0] == 's';
    i->of[0] = address(r, operands[loads ? 1 : 0], &i->offset);
    i->count = elements(r, operands[loads ? 0 : 1], loads ? i->to : i->of + 1);
    return true;
}

static bool read_call(reader *r, instruction *i, char *operands[], size_t count)
{
    i->kind = KIND_CALL;
    for (size_t k = 0; k < r->m->function_count; k++) {
        const function *callee = &r->m->functions[k];
        if (count != 2 || strcmp(callee->name, operands[0]) != 0 || callee->is_entry)
            continue;
        i->target = (uint32_t)k;
        for (size_t a = 0; a < r->call_count && a < callee->parameters; a++)
            r->m->code[r->call_arguments[a]].to[0] = callee->parameter[a];
        bool fits = r->call_count == callee->parameters;
        r->call_count = 0;
        return fits || ptx_complain(r->problem, "%s: wrong number of arguments", r->f->name);
    }
    return ptx_complain(r->problem, "%s: calls %.60s", r->f->name, operands[0]);
}

/* "mma...m8n8k16... {d0, d1}, {a}, {b}, {c0, c1}" */
static bool read_matrix(reader *r, instruction *i, const char *opcode, char *operands[], size_t count)
{
    uint32_t sums[4], one[4];
    if (strcmp(opcode, "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32") != 0 || count != 4)
        return ptx_complain(r->problem, "%s: unknown: %.60s", r->f->name, opcode);
    i->kind = KIND_MATRIX;
    bool fine = elements(r, operands[0], i->to) == 2 && elements(r, operands[3], sums) == 2;
    i->of[2] = sums[0], i->of[4] = sums[1];
    for (size_t k = 0; k < 2; k++) {
        fine &= elements(r, operands[1 + k], one) == 1;
        i->of[k] = one[0];
    }
    i->of[3] = filled_register(r, FILL_NUMBER, UINT32_MAX);
    return fine || ptx_complain(r->problem, "%s: %.60s with other operands", r->f->name, opcode);
}

static bool read_computation(reader *r, instruction *i, const char *opcode, char *operands[], size_t count)
{
    i->compute = ptx_operation(opcode);
    if (!i->compute || count < 2 || count > MOST_OPERANDS)
        return ptx_complain(r->problem, "%s: unknown instruction %.60s with %zu operands", r->f->name, opcode, count);
    i->to[0] = operand(r, operands[0]);
    for (size_t k = 1; k < count; k++)
        i->of[k - 1] = operand(r, operands[k]);
    return true;
}

static bool read_instruction(reader *r, char *text)
{
    instruction *i = new_instruction(r->m), own = {0};
    if (*text == '@') {
        own.unless = text[1] == '!';
        char *name = text + 1 + own.unless;
        text = name + strcspn(name, " ");
        *text++ = 0;
        own.predicate = operand(r, name);
    }
    text += strspn(text, " ");
    char *opcode = text, *operands[MOST_OPERANDS + 1];
    text += strcspn(text, " ");
    if (*text)
        *text++ = 0;
    size_t count = cut(text, operands, MOST_OPERANDS + 1);
    bool fine = true;
    if (strncmp(opcode, "ld.", 3) == 0 || strncmp(opcode, "st.", 3) == 0) {
        fine = read_access(r, &own, opcode, operands, count);
    } else if (strncmp(opcode, "shfl.sync.", 10) == 0 && count == 5) {
        own.kind = KIND_SHUFFLE;
        own.crosses = strncmp(opcode + 10, "bfly", 4) == 0;
        own.to[0] = operand(r, operands[0]);
        for (size_t k = 1; k < 5; k++)
            own.of[k - 1] = operand(r, operands[k]);
        fine =
            own.crosses || strncmp(opcode + 10, "down", 4) == 0 || ptx_complain(r->problem, "unknown: %.60s", opcode);
    } else if (strncmp(opcode, "mma.", 4) == 0) {
        fine = read_matrix(r, &own, opcode, operands, count);
    } else if (strcmp(opcode, "bra") == 0 || strcmp(opcode, "bra.uni") == 0) {
        own.kind = KIND_BRANCH;
        add(&r->waiting, operands[0], (uint32_t)r->m->code_count - 1);
    } else if (strncmp(opcode, "call", 4) == 0) {
        fine = read_call(r, &own, operands, count);
    } else if (strcmp(opcode, "ret") == 0 || strcmp(opcode, "exit") == 0) {
        own.kind = KIND_RETURN;
    } else if (strncmp(opcode, "bar.sync", 8) == 0 || strncmp(opcode, "barrier.sync", 12) == 0) {
        own.kind = KIND_BARRIER;
    } else if (strncmp(opcode, "membar", 6) == 0 || strncmp(opcode, "fence", 5) == 0 ||
               strncmp(opcode, "griddepcontrol.", 15) == 0 || strncmp(opcode, "cp.async.bulk.prefetch.", 23) == 0) {
        own.kind = KIND_NOTHING;
    } else {
        fine = read_computation(r, &own, opcode, operands, count);
    }
    (void)i;
    r->m->code[r->m->code_count - 1] = own;
    return fine;
}

/* ".shared .align 16 .b8 name[1024]": gives the variable a place. */
static bool read_variable(reader *r, char *text, uint32_t *used)
{
    char *type = strrchr(text, '.'), *name = type ? strchr(type, ' ') : NULL, *size = name ? strchr(name, '[') : NULL;
    if (!name)
        return ptx_complain(r->problem, "%s: what is %.60s?", r->f->name, text);
    name += strspn(name, " ");
    unsigned long count = size ? strtoul(size + 1, NULL, 10) : 1;
    if (size)
        *size = 0;
    *used = (*used + 15) / 16 * 16;
    add(&r->variables, name, *used);
    *used += (uint32_t)(count * bytes_of_type(type + 1));
    return true;
}

static bool read_statement(reader *r, char *text)
{
    if (strncmp(text, ".shared", 7) == 0)
        return read_variable(r, text, &r->f->shared_bytes);
    if (strncmp(text, ".local", 6) == 0)
        return read_variable(r, text, &r->f->local_bytes);
    return text[0] == '.' || read_instruction(r, text);
}

/* Registers of a function that is no entry. */
enum { FUNCTION_REGISTERS = 4096 };

/* Returns the function of a name; makes it unless it was declared before. */
static function *function_named(reader *r, const char *name, bool is_entry)
{
    ptx_module *m = r->m;
    for (size_t i = 0; i < m->function_count; i++)
        if (strcmp(m->functions[i].name, name) == 0)
            return &m->functions[i];
    for (size_t i = 0; !is_entry && i < m->function_count; i++)
        if (m->functions[i].is_entry)
            ptx_complain(r->problem, "%.60s: a function after an entry", name);
    m->functions = realloc(m->functions, (m->function_count + 1) * sizeof *m->functions);
    function *f = &m->functions[m->function_count++];
    *f = (function){.is_entry = is_entry, .first_register = m->function_registers};
    snprintf(f->name, NAME, "%s", name);
    m->function_registers += is_entry ? 0 : FUNCTION_REGISTERS;
    return f;
}

/* ".visible .entry name(.param .u64 a, ...)" or ".func name(...)": begins a function, or only declares it. */
static bool begin_function(reader *r, char *text, bool declares)
{
    char *open = strchr(text, '('), *close = strrchr(text, ')'), *list[MOST_ARGUMENTS];
    if (!open || !close)
        return ptx_complain(r->problem, "what is %.60s?", text);
    *close = *open = 0;
    for (char *end = open; end > text && end[-1] == ' ';)
        *--end = 0;
    function *f = r->f = function_named(r, strrchr(text, ' ') + 1, strstr(text, ".entry") != NULL);
    bool is_new = f->parameters == 0;
    f->parameters = (uint32_t)cut(open + 1, list, MOST_ARGUMENTS);
    for (uint32_t i = 0; i < f->parameters; i++) {
        if (is_new)
            f->parameter[i] = f->is_entry ? 0 : new_register(r);
        if (!declares)
            add(&r->variables, strrchr(list[i], ' ') + 1, i);
    }
    f->begin = (uint32_t)r->m->code_count;
    r->f = declares ? NULL : f;
    return true;
}

static bool end_function(reader *r)
{
    for (size_t i = 0; i < r->waiting.count; i++) {
        uint32_t *label = find(&r->labels, r->waiting.all[i].name);
        if (!label)
            return ptx_complain(r->problem, "%s: no label %.60s", r->f->name, r->waiting.all[i].name);
        r->m->code[r->waiting.all[i].number].target = *label;
    }
    new_instruction(r->m)->kind = KIND_RETURN;
    if (!r->f->is_entry && r->f->registers > FUNCTION_REGISTERS)
        return ptx_complain(r->problem, "%s: too many registers", r->f->name);
    forget(&r->registers), forget(&r->labels), forget(&r->variables), forget(&r->waiting);
    r->f = NULL;
    return true;
}

/* Blanks out comments and the lines of the head, and makes all white space blanks. */
static void clean(char *text)
{
    for (char *at = text; *at;) {
        size_t line = strcspn(at, "\n");
        char *comment = strstr(at, "//");
        bool head =
            strncmp(at, ".version", 8) == 0 || strncmp(at, ".target", 7) == 0 || strncmp(at, ".address_size", 13) == 0;
        size_t good = head ? 0 : comment && comment < at + line ? (size_t)(comment - at) : line;
        memset(at + good, ' ', line - good);
        at += line;
        if (*at)
            *at++ = ' ';
    }
    for (; *text; text++)
        *text = *text == '\t' || *text == '\r' ? ' ' : *text;
}

/* Reads what is next: a brace, a label, a statement or the head of a function. false: the end, or a problem. */
static bool read_next(reader *r, int *depth)
{
    r->at += strspn(r->at, " ");
    if (!*r->at)
        return false;
    if (*r->at == '{' || *r->at == '}') {
        *depth += *r->at++ == '{' ? 1 : -1;
        return *depth > 0 || end_function(r);
    }
    char *text = r->at;
    if (*depth == 0) {
        size_t length = strcspn(text, "{;");
        r->at = text + length + (text[length] == ';');
        char last = text[length];
        text[length] = 0;
        bool is_function = strstr(text, ".entry") || strstr(text, ".func");
        bool fine = !is_function || begin_function(r, text, last == ';');
        text[length] = last;
        return fine;
    }
    size_t word = strcspn(text, " :;");
    if (text[word] == ':') {
        text[word] = 0;
        add(&r->labels, text, (uint32_t)r->m->code_count);
        r->at = text + word + 1;
        return true;
    }
    size_t length = strcspn(text, ";");
    if (!text[length])
        return ptx_complain(r->problem, "%s does not end", r->f->name);
    text[length] = 0;
    r->at = text + length + 1;
    return read_statement(r, text);
}

ptx_module *ptx_parse(const char *text, char problem[PTX_PROBLEM])
{
    problem[0] = 0;
    reader r = {.text = strdup(text), .m = calloc(1, sizeof(ptx_module)), .problem = problem};
    r.m->function_registers = 2; /* no register, and where to return to */
    r.at = r.text;
    clean(r.text);
    int depth = 0;
    while (read_next(&r, &depth))
        ;
    free(r.text);
    forget(&r.registers), forget(&r.labels), forget(&r.variables), forget(&r.waiting);
    if (!problem[0])
        return r.m;
    ptx_free(r.m);
    return NULL;
}

void ptx_free(ptx_module *m)
{
    for (size_t i = 0; m && i < m->function_count; i++)
        free(m->functions[i].filled);
    if (m)
        free(m->functions), free(m->code), free(m->spare);
    free(m);
}
