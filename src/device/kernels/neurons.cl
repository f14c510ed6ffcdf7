/* neurons.cl - which neurons fire, and what they pass on: ordered compaction and the activation.
 *
 * Sparsity on a device is these lists: compact writes the numbers of the neurons that matter, in order, and the kernels
 * that follow read only their rows. Order matters twice: sums are then always taken in the same order, so the result
 * is the same on every run, and rows are read as they lie in memory. No atomics, for the same reason. */

/* Values that a lane looks at in one round of compact; kept in registers, since the lists may overwrite the values. */
#define COMPACT_VALUES 8
/* Counts that one lane adds up while the group's prefix sums are made: MOST_LANES of them in about 16 stretches. */
#define COMPACT_STRETCH 16

/* How many of the group's values lie before this lane's, of which there are `count`; *all becomes how many there are in
 * all. Every lane writes its count; the first lane of each stretch of lanes adds up the stretch; and every lane adds
 * the stretches before its own. Two barriers, and right for any number of lanes.
 * counts [MOST_LANES], stretches [MOST_LANES / COMPACT_STRETCH + 1]; may follow itself without a barrier between. */
INLINE uint group_prefix(uint count, LOCAL uint *counts, LOCAL uint *stretches, uint *all)
{
    counts[LANE] = count;
    BARRIER();
    uint stretch = LANE / COMPACT_STRETCH, last = (LANES - 1) / COMPACT_STRETCH;
    if (LANE % COMPACT_STRETCH == 0) {
        uint sum = 0;
        for (uint lane = LANE; lane < LANES && lane < LANE + COMPACT_STRETCH; lane++) {
            uint own = counts[lane];
            counts[lane] = sum;
            sum += own;
        }
        stretches[stretch] = sum;
    }
    BARRIER();
    uint before = counts[LANE], sum = 0;
    for (uint s = 0; s <= last; s++) {
        before += s < stretch ? stretches[s] : 0;
        sum += stretches[s];
    }
    *all = sum;
    return before;
}

/* Whether a value passes a rule. NaN is neither above nor below anything: it passes RULE_FROM only. */
INLINE bool passes(float value, uint rule, float threshold)
{
    return rule == RULE_ABOVE ? value > threshold : !(value < threshold);
}

/* One round after the other, each of COMPACT_VALUES neighbouring values for every lane: count what passes, learn where
 * to write, write. A round writes no further than it has read, so `selected` may be `values`, and `list` may be `ids`. */
KERNEL(compact, P_COMPACT)
{
    LOCAL_ARRAY(uint, counts, MOST_LANES);
    LOCAL_ARRAY(uint, stretches, MOST_LANES / COMPACT_STRETCH + 1);
    for (uint t = GROUP; t < step->count; t += GROUPS) {
        size_t row = (size_t)t * n;
        uint m = ids ? id_count[t] : n, done = 0;
        for (uint round = 0; round < m; round += COMPACT_VALUES * LANES) {
            uint first = round + COMPACT_VALUES * LANE, count = 0, passing = 0;
            float value[COMPACT_VALUES];
            uint id[COMPACT_VALUES];
            UNROLL
            for (uint k = 0; k < COMPACT_VALUES; k++) {
                bool inside = first + k < m;
                id[k] = !inside ? 0 : ids ? ids[row + first + k] : first + k;
                value[k] = !inside ? 0.0f : values[row + first + k] + (bias ? bias[id[k]] : 0.0f);
                uint pass = inside && passes(value[k], rule, threshold);
                count += pass;
                passing |= pass << k;
            }
            uint all, at = done + group_prefix(count, counts, stretches, &all);
            if (passing != 0) {
                UNROLL
                for (uint k = 0; k < COMPACT_VALUES; k++)
                    if (passing >> k & 1) {
                        list[row + at] = id[k];
                        if (selected)
                            selected[row + at] = value[k];
                        at++;
                    }
            }
            done += all;
        }
        if (LANE == 0) {
            listed[t] = done;
            totals[t * TOTALS + column] += done;
        }
    }
}

/* The activation of one neuron; 0 where relu gives zero. */
INLINE float activated(float value, uint kind, float activation_threshold)
{
    if (kind == KIND_SILU)
        return DIVIDE(value, 1.0f + EXP(-value));
    return value > activation_threshold ? value : 0.0f;
}

/* Places begin .. end - 1 of one token. biased: whether there are biases at all, the one reason to look into the
 * list. */
INLINE void activate_places(bool biased, GLOBAL float *first, GLOBAL const float *second,
                            GLOBAL const float *first_bias, GLOBAL const float *second_bias, GLOBAL const uint *list,
                            uint begin, uint end, uint kind, uint gating, float activation_threshold)
{
    for (uint i = begin + LANE; i < end; i += LANES) {
        uint neuron = biased && list ? list[i] : i;
        float value = first[i] + (biased && first_bias ? first_bias[neuron] : 0.0f);
        float result = activated(value, kind, activation_threshold);
        if (gating != GATING_PLAIN) {
            float other = second[i] + (biased && second_bias ? second_bias[neuron] : 0.0f);
            if (gating == GATING_BOTH)
                other = activated(other, kind, activation_threshold);
            bool is_zero = kind == KIND_RELU && !(value > activation_threshold);
            result = is_zero ? 0.0f : result * other; /* and not 0 * other, which need not be 0 */
        }
        first[i] = result;
    }
}

/* An item is ACTIVATE_NEURONS neighbouring places of one token. */
KERNEL(activate, P_ACTIVATE)
{
    uint parts = (n + ACTIVATE_NEURONS - 1) / ACTIVATE_NEURONS;
    for (uint item = GROUP; item < step->count * parts; item += GROUPS) {
        uint t = item / parts, begin = item % parts * ACTIVATE_NEURONS;
        uint end = least(begin + ACTIVATE_NEURONS, list ? listed[t] : n);
        size_t row = (size_t)t * n;
        GLOBAL const float *other = second ? second + row : second;
        if (first_bias || second_bias)
            activate_places(true, first + row, other, first_bias, second_bias, list ? list + row : list, begin, end,
                            kind, gating, activation_threshold);
        else
            activate_places(false, first + row, other, first_bias, second_bias, list, begin, end, kind, gating, activation_threshold);
    }
}
