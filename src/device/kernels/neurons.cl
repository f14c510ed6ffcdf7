/* neurons.cl - selects the neurons that matter (ordered compaction) and applies the activation; and before that, in some
 * models, cuts their first values.
 *
 * Sparsity on a device works by lists: compact writes the ids of the neurons that matter, in order, and later kernels
 * read only their rows. The order has two advantages: sums are always taken in the same order, so that the result is
 * the same on every run, and rows are read in the order of memory. There are no atomics, for the same reason. */

/* Values that a lane tests in one round of compact; in registers, since `selected` may overwrite `values`. */
#define COMPACT_VALUES 8
/* Counts that one lane adds up in group_prefix. */
#define COMPACT_STRETCH 16

/* Exclusive prefix sum: returns the sum of `count` over the lanes before this one; *all becomes the sum over all lanes.
 * Every lane writes its count; the first lane of each stretch of lanes adds up the stretch; then every lane adds the
 * stretches before its own. This takes two barriers and works for any number of lanes.
 * counts [MOST_LANES], stretches [MOST_LANES / COMPACT_STRETCH + 1]; two calls need no barrier between them. */
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

/* Returns whether a value passes a rule. NaN is neither above nor below a threshold, so RULE_ABOVE alone stops it. */
INLINE bool passes(float value, uint rule, float threshold)
{
    if (rule == RULE_BEYOND)
        return !(magnitude_of(value) <= threshold);
    return rule == RULE_ABOVE ? value > threshold : !(value < threshold);
}

/* In each round every lane takes COMPACT_VALUES neighbouring values, counts those that pass, gets its place in the
 * list, and writes them. A round never writes beyond what it has read, so `selected` may be `values`, and `list` may be
 * `ids`. */
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
            if (totals)
                totals[t * TOTALS + column] += done;
        }
    }
}

/* A group takes a token. The mean comes first, so that the deviation is not a difference of large numbers. */
KERNEL(cut, P_CUT)
{
    LOCAL_ARRAY(float, shared, SCRATCH_FOR_ONE);
    uint by_8 = COLUMNS_BY_8(n);
    for (uint t = GROUP; t < step->count; t += GROUPS) {
        GLOBAL float *row = first + (size_t)t * n;
        wide sum = wide_zero(), squares = wide_zero();
        for (uint i = LANE * 8; i < by_8; i += LANES * 8)
            sum = wide_dot(sum, float8_load(row + i), float8_all(1.0f));
        for (uint i = by_8 + LANE; i < n; i += LANES)
            sum = wide_add(sum, row[i]);
        float mean = DIVIDE(group_sum(wide_total(sum), shared), (float)n);
        for (uint i = LANE * 8; i < by_8; i += LANES * 8) {
            float8 centred = float8_fma(float8_all(-1.0f), float8_all(mean), float8_load(row + i));
            squares = wide_dot(squares, centred, centred);
        }
        for (uint i = by_8 + LANE; i < n; i += LANES)
            squares = wide_add(squares, (row[i] - mean) * (row[i] - mean));
        float least_value = FMA(deviations, SQRT(DIVIDE(group_sum(wide_total(squares), shared), (float)n)), mean);
        for (uint i = LANE; i < n; i += LANES)
            row[i] = row[i] <= least_value ? 0.0f : row[i] - least_value;
    }
}

/* What an activation depends on besides its input (KIND_). */
typedef struct terms {
    float threshold, positive, negative, linear;
} terms;

/* Returns the activation of one neuron. */
INLINE float activated(float value, uint kind, terms with)
{
    if (kind == KIND_SILU)
        return DIVIDE(value, 1.0f + EXP(-value));
    if (kind == KIND_RELU2)
        return value > 0.0f ? value * value : 0.0f;
    if (kind == KIND_GELU) {
        float beyond = erfc_of(magnitude_of(value) * 0.70710678f);
        return 0.5f * value * (value < 0.0f ? beyond : 2.0f - beyond);
    }
    if (kind == KIND_GELU_TANH) /* (1 + tanh(u)) / 2 = 1 / (1 + exp(-2 u)) */
        return DIVIDE(value, 1.0f + EXP(-1.5957691f * FMA(0.044715f * value * value, value, value)));
    if (kind == KIND_XIELU)
        return FMA(with.linear, value,
                   value > 0.0f ? with.positive * value * value : with.negative * (EXP(value) - 1.0f - value));
    return value > with.threshold ? value : 0.0f;
}

/* Returns clamped SwiGLU of one neuron. NaN stays NaN. */
INLINE float swiglu_clamped(float gate, float up, float limit)
{
    gate = gate > limit ? limit : gate;
    up = up > limit ? limit : up < -limit ? -limit : up;
    return DIVIDE(gate, 1.0f + EXP(-1.702f * gate)) * (up + 1.0f);
}

/* Returns the product of limited SiLU and limited up of one neuron; limit 0: there is none. first: what SiLU reads is limited, else
 * what it gives. NaN stays NaN. */
INLINE float silu_limited(float gate, float up, float limit, bool first)
{
    gate = first && limit > 0.0f && gate > limit ? limit : gate;
    float value = DIVIDE(gate, 1.0f + EXP(-gate));
    if (limit > 0.0f) {
        value = value > limit ? limit : value;
        up = up > limit ? limit : up < -limit ? -limit : up;
    }
    return value * up;
}

/* Activates the places begin .. end - 1 of one token. biased (a constant): whether there are biases; only they need the
 * list. */
INLINE void activate_places(bool biased, GLOBAL float *first, GLOBAL const float *second,
                            GLOBAL const float *first_bias, GLOBAL const float *second_bias, GLOBAL const uint *list,
                            uint begin, uint end, uint kind, uint gating, terms with)
{
    for (uint i = begin + LANE; i < end; i += LANES) {
        uint neuron = biased && list ? list[i] : i;
        float value = first[i] + (biased && first_bias ? first_bias[neuron] : 0.0f);
        if (kind == KIND_SWIGLU_CLAMPED || kind == KIND_SILU_LIMITED || kind == KIND_SILU_CLAMPED) {
            float other = second[i] + (biased && second_bias ? second_bias[neuron] : 0.0f);
            first[i] = kind == KIND_SWIGLU_CLAMPED
                           ? swiglu_clamped(value, other, with.threshold)
                           : silu_limited(value, other, with.threshold, kind == KIND_SILU_CLAMPED);
            continue;
        }
        float result = activated(value, kind, with);
        if (gating != GATING_PLAIN) {
            float other = second[i] + (biased && second_bias ? second_bias[neuron] : 0.0f);
            if (gating == GATING_BOTH)
                other = activated(other, kind, with);
            bool is_zero = (kind == KIND_RELU && !(value > with.threshold)) ||
                           (kind == KIND_RELU2 && !(value > 0.0f));
            result = is_zero ? 0.0f : result * other; /* 0 * other is NaN if other is not finite */
        }
        first[i] = result;
    }
}

/* The same with a constant for the kinds that most models have, so that compilers vectorise their loops. */
INLINE void activate_kind(bool biased, GLOBAL float *first, GLOBAL const float *second, GLOBAL const float *first_bias,
                          GLOBAL const float *second_bias, GLOBAL const uint *list, uint begin, uint end, uint kind,
                          uint gating, terms with)
{
    if (kind == KIND_SILU)
        activate_places(biased, first, second, first_bias, second_bias, list, begin, end, KIND_SILU, gating,
                        with);
    else if (kind == KIND_RELU)
        activate_places(biased, first, second, first_bias, second_bias, list, begin, end, KIND_RELU, gating,
                        with);
    else
        activate_places(biased, first, second, first_bias, second_bias, list, begin, end, kind, gating,
                        with);
}

/* An item is ACTIVATE_NEURONS neighbouring places of one token. */
KERNEL(activate, P_ACTIVATE)
{
    uint parts = (n + ACTIVATE_NEURONS - 1) / ACTIVATE_NEURONS;
    terms with;
    with.threshold = activation_threshold, with.positive = positive, with.negative = negative, with.linear = linear;
    for (uint item = GROUP; item < step->count * parts; item += GROUPS) {
        uint t = item / parts, begin = item % parts * ACTIVATE_NEURONS;
        uint end = least(begin + ACTIVATE_NEURONS, list ? listed[t] : n);
        size_t row = (size_t)t * n;
        GLOBAL const float *other = second ? second + row : second;
        if (first_bias || second_bias)
            activate_kind(true, first + row, other, first_bias, second_bias, list ? list + row : list, begin, end,
                          kind, gating, with);
        else
            activate_kind(false, first + row, other, first_bias, second_bias, list, begin, end, kind, gating,
                          with);
    }
}

/* Returns whether an ascending list has a number. */
INLINE bool is_listed(GLOBAL const uint *list, uint count, uint number)
{
    uint low = 0, high = count;
    while (low < high) {
        uint middle = (low + high) / 2;
        if (list[middle] < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && list[low] == number;
}

/* A lane takes a neuron and looks for it in the list of each token, so that no two lanes add to the same number. */
KERNEL(tally, P_TALLY)
{
    for (uint first = GROUP * TALLIED_NEURONS; first < neurons; first += GROUPS * TALLIED_NEURONS) {
        uint end = first + TALLIED_NEURONS < neurons ? first + TALLIED_NEURONS : neurons;
        for (uint i = first + LANE; i < end; i += LANES) {
            uint times = 0;
            for (uint t = 0; t < step->count; t++)
                times += is_listed(list + (size_t)t * n, listed[t], i);
            fired[i] += times;
        }
    }
}
