/* load.c - what loads from models and from files have in common. */
#include "load.h"

#include <math.h>

void load_free(model_load *m)
{
    arena_clear(&m->memory);
    *m = (model_load){0};
}

uint32_t load_neurons(const layer_load *l, uint32_t wanted)
{
    if (wanted >= l->neurons)
        return l->neurons;
    if (!l->splits)
        return 0;
    if (l->unit <= 1)
        return wanted;
    return wanted < l->always ? 0 : l->always + (wanted - l->always) / l->unit * l->unit;
}

/* Places from x on have the sum count * density * (1 - x)^g, the integral of p. */
void load_hotness(float *chances, size_t count, double density, double hot, double share)
{
    double g = log1p(-share) / log1p(-hot), sum = density * (double)count;
    double rest = sum, grown = 1; /* of the places from `certain` on: their sum by the formula, and what it is times */
    size_t certain = 0;           /* neurons that fire for every token */
    for (; certain < count; certain++) {
        double next = sum * pow(1 - ((double)certain + 1) / (double)count, g);
        grown = (sum - (double)certain) / rest;
        if (!(grown < 1e100) || grown * (rest - next) <= 1)
            break;
        chances[certain] = 1;
        rest = next;
    }
    double even = (sum - (double)certain) / (double)(count - certain); /* where the formula leaves nothing to grow */
    for (size_t i = certain; i < count; i++) {
        double next = sum * pow(1 - ((double)i + 1) / (double)count, g);
        double chance = grown < 1e100 ? grown * (rest - next) : even;
        chances[i] = (float)(chance < 1 ? chance : 1);
        rest = next;
    }
}
