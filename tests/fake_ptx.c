/* fake_ptx.c - runs a module of PTX (fake_ptx.h): warps of lanes that part and meet, their memory and their barriers. */
#include "fake_ptx_module.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_LANES = 1024 };

/* What a word of shared memory was used for since the last barrier: by which lane of the block (NOBODY, SEVERAL). */
enum { NOBODY = -1, SEVERAL = -2 };
typedef struct use {
    int16_t written, read;
} use;

typedef struct warp {
    lanes *registers;                /* [registers of the kernel] */
    uint32_t at[WARP];               /* the next instruction of each lane */
    uint32_t alive, waiting, parked; /* waiting: at a barrier; parked: at a shuffle, for others that take part */
    unsigned char *local;            /* [WARP][local_bytes] */
} warp;

typedef struct machine {
    const ptx_module *m;
    const function *f;
    ptx_memory *memory;
    unsigned char *shared;
    use *uses; /* [shared_bytes / 4] */
    uint32_t shared_bytes, local_bytes;
    unsigned lanes, group, groups;
    char *problem;
} machine;

/* Returns where a generic address is, and makes it one of that space. */
static space space_of(uint64_t *address)
{
    uint64_t window = *address & ~(uint64_t)(WINDOW_BYTES - 1);
    *address -= window == shared_window || window == local_window ? window : 0;
    return window == shared_window ? SPACE_SHARED : window == local_window ? SPACE_LOCAL : SPACE_GLOBAL;
}

/* The bytes of a lane at an address; NULL: there are none. */
static unsigned char *bytes_at(const machine *k, warp *w, unsigned lane, space of, uint64_t address, size_t size)
{
    if (of == SPACE_GLOBAL)
        return k->memory(address);
    uint64_t room = of == SPACE_SHARED ? k->shared_bytes : k->local_bytes;
    if (address > room || size > room - address) {
        ptx_complain(k->problem, "%s: beyond its %s memory", k->f->name, of == SPACE_SHARED ? "shared" : "local");
        return NULL;
    }
    return of == SPACE_SHARED ? k->shared + address : w->local + lane * (size_t)k->local_bytes + address;
}

/* Notes a use of shared memory; complains if another lane uses the same word and one of both writes it. */
static void note_use(const machine *k, uint64_t address, size_t size, int lane, bool writes)
{
    for (uint64_t word = address / 4; word < (address + size + 3) / 4; word++) {
        use *u = &k->uses[word];
        bool others_read = u->read != NOBODY && u->read != lane;
        bool others_wrote = u->written != NOBODY && u->written != lane;
        if (others_wrote || (writes && others_read))
            ptx_complain(k->problem,
                         "%s: lanes %d and %d of group %u use shared memory at %llu with no barrier between",
                         k->f->name, lane, others_wrote ? u->written : u->read, k->group, (unsigned long long)word * 4);
        if (writes)
            u->written = (int16_t)lane;
        else
            u->read = (int16_t)(others_read ? SEVERAL : lane);
    }
}

static void access_memory(const machine *k, warp *w, const instruction *i, uint32_t active, int first_lane)
{
    bool loads = i->kind == KIND_LOAD;
    size_t size = (size_t)i->bytes * i->count;
    for (unsigned lane = 0; lane < WARP; lane++) {
        if (!(active >> lane & 1))
            continue;
        uint64_t address = w->registers[i->of[0]][lane];
        bool is_short = i->space == SPACE_SHARED || i->space == SPACE_LOCAL;
        address = (is_short ? (uint32_t)address : address) + (uint64_t)i->offset;
        space of = i->space == SPACE_GENERIC ? space_of(&address) : i->space;
        unsigned char *bytes = bytes_at(k, w, lane, of, address, size);
        if (address % size != 0)
            ptx_complain(k->problem, "%s: an address that is no multiple of %zu", k->f->name, size);
        if (!bytes || k->problem[0])
            return;
        if (of == SPACE_SHARED)
            note_use(k, address, size, first_lane + (int)lane, !loads);
        for (unsigned e = 0; e < i->count; e++) {
            uint64_t word = 0;
            if (loads) {
                memcpy(&word, bytes + e * i->bytes, i->bytes);
                unsigned above = 64 - 8 * i->bytes;
                if (i->is_signed)
                    word = (uint64_t)((int64_t)(word << above) >> above);
                w->registers[i->to[e]][lane] = word;
            } else {
                memcpy(bytes + e * i->bytes, &w->registers[i->of[1 + e]][lane], i->bytes);
            }
        }
    }
}

/* Returns whether all lanes that take part in a shuffle, and live, are among those that have come to it. */
static bool is_complete(const warp *w, const instruction *i, uint32_t come)
{
    uint32_t take_part = 0;
    for (unsigned lane = 0; lane < WARP; lane++)
        take_part |= come >> lane & 1 ? (uint32_t)w->registers[i->of[3]][lane] : 0;
    return (take_part & w->alive & ~come) == 0;
}

static void shuffle(const machine *k, warp *w, const instruction *i, uint32_t active)
{
    lanes from, to;
    memcpy(from, w->registers[i->of[0]], sizeof from);
    memcpy(to, w->registers[i->to[0]], sizeof to);
    for (unsigned lane = 0; lane < WARP; lane++) {
        if (!(active >> lane & 1))
            continue;
        uint32_t take_part = (uint32_t)w->registers[i->of[3]][lane];
        uint32_t distance = (uint32_t)w->registers[i->of[1]][lane];
        uint32_t of = i->crosses ? lane ^ distance : lane + distance;
        if (!(take_part >> lane & 1) || (take_part & ~w->alive))
            ptx_complain(k->problem, "%s: lane %u of group %u shuffles with lanes that do not", k->f->name, lane,
                         k->group);
        bool there = of < WARP && (active >> of & 1);
        to[lane] = of >= WARP ? from[lane] : there ? from[of] : 0x7fc0deadu; /* of a lane that is not there: anything */
    }
    memcpy(w->registers[i->to[0]], to, sizeof to);
}

/* D = C + A B of 8 rows, 8 columns and a depth of 16 bytes. Of A lane 4 r + k has the bytes 4 k to 4 k + 3 of row r; of B lane 4 c + k
 * those of column c; of C and D lane 4 r + k has the columns 2 k and 2 k + 1 of row r (PTX ISA, mma.m8n8k16). */
static void multiply(const machine *k, warp *w, const instruction *i, uint32_t active)
{
    if (active != UINT32_MAX)
        ptx_complain(k->problem, "%s: a product of matrices in group %u without all lanes", k->f->name, k->group);
    int32_t sums[2][WARP];
    for (unsigned lane = 0; lane < WARP; lane++)
        for (unsigned c = 0; c < 2; c++) {
            uint32_t sum = (uint32_t)w->registers[i->of[c == 0 ? 2 : 4]][lane];
            for (unsigned deep = 0; deep < 16; deep++) {
                uint64_t a = w->registers[i->of[0]][lane / 4 * 4 + deep / 4];
                uint64_t b = w->registers[i->of[1]][(2 * (lane % 4) + c) * 4 + deep / 4];
                sum += (uint32_t)((int8_t)(a >> deep % 4 * 8) * (int8_t)(b >> deep % 4 * 8));
            }
            sums[c][lane] = (int32_t)sum;
        }
    for (unsigned lane = 0; lane < WARP; lane++)
        for (unsigned c = 0; c < 2; c++)
            w->registers[i->to[c]][lane] = (uint32_t)sums[c][lane];
}

static uint32_t mask_of(const warp *w, const instruction *i, uint32_t active)
{
    if (i->predicate == 0)
        return active;
    uint32_t mask = 0;
    for (unsigned lane = 0; lane < WARP; lane++)
        mask |= (uint32_t)((w->registers[i->predicate][lane] != 0) != i->unless) << lane;
    return active & mask;
}

/* Moves lanes to an instruction. */
static void send_to(warp *w, uint32_t which, uint32_t at)
{
    for (unsigned lane = 0; lane < WARP; lane++)
        if (which >> lane & 1)
            w->at[lane] = at;
}

enum { RETURN_TO = 1 };

/* Ends lanes, or returns them to where they were called; those of a function hold an address there. */
static void come_back(warp *w, uint32_t which)
{
    for (unsigned lane = 0; lane < WARP; lane++) {
        if (!(which >> lane & 1))
            continue;
        uint64_t to = w->registers[RETURN_TO][lane];
        w->registers[RETURN_TO][lane] = 0;
        if (to)
            w->at[lane] = (uint32_t)to;
        else
            w->alive &= ~(1u << lane);
    }
}

static uint32_t parked_at(const warp *w, uint32_t at)
{
    uint32_t which = 0;
    for (unsigned lane = 0; lane < WARP; lane++)
        which |= (uint32_t)((w->parked >> lane & 1) && w->at[lane] == at) << lane;
    return which;
}

/* Takes the lanes that are furthest behind on, together, until they part or meet others. */
static void advance(machine *k, warp *w, int first_lane)
{
    uint32_t running = w->alive & ~w->waiting & ~w->parked, at = UINT32_MAX, active = 0, meet = UINT32_MAX;
    for (unsigned lane = 0; lane < WARP; lane++)
        if (running >> lane & 1 && w->at[lane] < at)
            at = w->at[lane];
    for (unsigned lane = 0; lane < WARP; lane++)
        if (running >> lane & 1) {
            active |= (uint32_t)(w->at[lane] == at) << lane;
            meet = w->at[lane] > at && w->at[lane] < meet ? w->at[lane] : meet;
        }
    for (; at < meet && !k->problem[0]; at++) {
        const instruction *i = &k->m->code[at];
        uint32_t mask = mask_of(w, i, active);
        const uint64_t *of[MOST_OPERANDS];
        switch (i->kind) {
        case KIND_COMPUTE:
            for (unsigned n = 0; n < MOST_OPERANDS; n++)
                of[n] = w->registers[i->of[n]];
            i->compute(w->registers[i->to[0]], of, mask);
            continue;
        case KIND_LOAD:
        case KIND_STORE:
            access_memory(k, w, i, mask, first_lane);
            continue;
        case KIND_SHUFFLE:
        case KIND_MATRIX:
            active |= parked_at(w, at);
            mask = mask_of(w, i, active);
            w->parked = is_complete(w, i, mask) ? w->parked & ~active : w->parked | active;
            if (w->parked & active) {
                send_to(w, active, at);
                return;
            }
            (i->kind == KIND_SHUFFLE ? shuffle : multiply)(k, w, i, mask);
            continue;
        case KIND_NOTHING:
            continue;
        case KIND_BRANCH:
            if (mask == 0)
                continue;
            if (mask == active && i->target > at && i->target < meet) {
                at = i->target - 1;
                continue;
            }
            send_to(w, active, at + 1);
            send_to(w, mask, i->target);
            return;
        case KIND_CALL:
            for (unsigned lane = 0; lane < WARP; lane++)
                if (mask >> lane & 1)
                    w->registers[RETURN_TO][lane] = at + 1;
            send_to(w, active, at + 1);
            send_to(w, mask, k->m->functions[i->target].begin);
            return;
        case KIND_RETURN:
            send_to(w, active, at + 1);
            come_back(w, mask);
            return;
        case KIND_BARRIER:
            send_to(w, active, at + 1);
            w->waiting |= mask;
            return;
        }
    }
    send_to(w, active, at);
}

/* Returns what a register is filled with. */
static uint64_t filling_of(const machine *k, const filled *v, unsigned lane, const uint64_t *parameters)
{
    struct timespec now;
    switch (v->with) {
    case FILL_NUMBER:
        break;
    case FILL_LANE:
        return lane;
    case FILL_LANES:
        return k->lanes;
    case FILL_GROUP:
        return k->group;
    case FILL_GROUPS:
        return k->groups;
    case FILL_PARAMETER:
        return parameters[v->value];
    case FILL_TIME:
        clock_gettime(CLOCK_REALTIME, &now);
        return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    }
    return v->value;
}

/* Fills the registers of a function, or only those that differ from group to group. */
static void fill_registers(const machine *k, const function *f, warp *w, unsigned first_lane,
                           const uint64_t *parameters, bool all)
{
    for (size_t i = 0; i < f->filled_count; i++) {
        if (!all && f->filled[i].with != FILL_GROUP && f->filled[i].with != FILL_TIME)
            continue;
        uint64_t *to = w->registers[f->filled[i].number];
        for (unsigned lane = 0; lane < WARP; lane++)
            to[lane] = lane == 0 || f->filled[i].with == FILL_LANE
                           ? filling_of(k, &f->filled[i], first_lane + lane, parameters)
                           : to[0];
    }
}

/* Runs a group whose warps are made. */
static void run_group_of(machine *k, warp *warps, unsigned count, const uint64_t *parameters)
{
    memset(k->shared, 0xff, k->shared_bytes); /* NaN, until it is written */
    memset(k->uses, 0xff, (k->shared_bytes / 4 + 1) * sizeof *k->uses);
    for (unsigned n = 0; n < count; n++) {
        warp *w = &warps[n];
        unsigned left = k->lanes - n * WARP;
        w->alive = left < WARP ? (1u << left) - 1 : UINT32_MAX;
        w->waiting = w->parked = 0;
        for (size_t i = 0; i < k->m->function_count; i++)
            if (!k->m->functions[i].is_entry || &k->m->functions[i] == k->f)
                fill_registers(k, &k->m->functions[i], w, n * WARP, parameters, k->group == 0);
        memset(w->registers[RETURN_TO], 0, sizeof(lanes));
        send_to(w, w->alive, k->f->begin);
    }
    for (bool alive = true; alive && !k->problem[0];) {
        alive = false;
        bool all_wait = true;
        for (unsigned n = 0; n < count && !k->problem[0]; n++) {
            while ((warps[n].alive & ~warps[n].waiting) && !k->problem[0]) {
                if ((warps[n].alive & ~warps[n].waiting & ~warps[n].parked) == 0)
                    ptx_complain(k->problem, "%s: a shuffle that some lanes of group %u never reach", k->f->name,
                                 k->group);
                else
                    advance(k, &warps[n], (int)(n * WARP));
            }
            alive |= warps[n].alive != 0;
        }
        for (unsigned n = 0; n < count; n++) {
            unsigned left = k->lanes - n * WARP;
            all_wait &= warps[n].waiting == (left < WARP ? (1u << left) - 1 : UINT32_MAX);
            warps[n].waiting = 0;
        }
        if (alive && !all_wait)
            ptx_complain(k->problem, "%s: a barrier that some lanes of group %u never reach", k->f->name, k->group);
        memset(k->uses, 0xff, (k->shared_bytes / 4 + 1) * sizeof *k->uses);
    }
}

static struct spare *take_spare(ptx_module *m, size_t size_bytes)
{
    struct spare *spare = __atomic_exchange_n(&m->spare, NULL, __ATOMIC_ACQ_REL);
    if (spare && spare->size_bytes >= size_bytes)
        return spare;
    free(spare);
    spare = malloc(sizeof *spare + size_bytes);
    spare->size_bytes = size_bytes;
    memset(spare->room, 0xff, size_bytes);
    return spare;
}

bool ptx_run(ptx_module *m, const char *entry, unsigned groups, unsigned lanes_of_group, const uint64_t *parameters,
             ptx_memory *memory, char problem[PTX_PROBLEM])
{
    problem[0] = 0;
    machine k = {.m = m, .memory = memory, .lanes = lanes_of_group, .groups = groups, .problem = problem};
    for (size_t i = 0; i < m->function_count; i++)
        if (m->functions[i].is_entry && strcmp(m->functions[i].name, entry) == 0)
            k.f = &m->functions[i];
    if (!k.f || lanes_of_group == 0 || lanes_of_group > MOST_LANES)
        return ptx_complain(problem, "no entry %.60s for %u lanes", entry, lanes_of_group);
    uint32_t registers = k.f->first_register + k.f->registers;
    for (size_t i = 0; i < m->function_count; i++) {
        const function *f = &m->functions[i];
        bool counts = f == k.f || !f->is_entry;
        k.shared_bytes = counts && f->shared_bytes > k.shared_bytes ? f->shared_bytes : k.shared_bytes;
        k.local_bytes = counts && f->local_bytes > k.local_bytes ? f->local_bytes : k.local_bytes;
        uint32_t end = f->first_register + f->registers;
        registers = counts && end > registers ? end : registers;
    }
    unsigned count = (lanes_of_group + WARP - 1) / WARP;
    warp *warps = calloc(count, sizeof *warps);
    k.shared = aligned_alloc(64, (k.shared_bytes + 64) / 64 * 64);
    k.uses = calloc(k.shared_bytes / 4 + 1, sizeof *k.uses);
    struct spare *spare = take_spare(m, registers * sizeof(lanes) * count);
    for (unsigned n = 0; n < count; n++) {
        warps[n].registers = spare->room + (size_t)n * registers;
        warps[n].local = malloc((size_t)WARP * k.local_bytes + 1);
    }
    for (k.group = 0; k.group < groups && !problem[0]; k.group++)
        run_group_of(&k, warps, count, parameters);
    for (unsigned n = 0; n < count; n++)
        free(warps[n].local);
    free(__atomic_exchange_n(&m->spare, spare, __ATOMIC_ACQ_REL));
    free(warps), free(k.shared), free(k.uses);
    return !problem[0];
}
