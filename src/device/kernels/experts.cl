/* experts.cl - layers with experts: route gives every expert its share of a token, expand lists the neurons of those
 * that have one, score tells which of them the experts' own masks let through, and weigh multiplies activations by the
 * shares. In between, lists work as in layers without experts. */

/* Returns how many of n values are better than the own-th: greater, or equal at an earlier place. */
INLINE uint better_than(LOCAL const float *values, uint n, uint own)
{
    uint rank = rank_of(values[own]), count = 0;
    for (uint i = 0; i < n; i++)
        count += is_better(rank_of(values[i]), i, rank, own);
    return count;
}

/* Returns the sum of the two greatest of n values, or the only one; NaN where one is not finite. */
INLINE float best_two(LOCAL const float *values, uint n)
{
    float first = NEGATIVE_INFINITY, second = NEGATIVE_INFINITY, wrong = 0.0f;
    for (uint i = 0; i < n; i++) {
        wrong += values[i] - values[i];
        second = values[i] > first ? first : values[i] > second ? values[i] : second;
        first = values[i] > first ? values[i] : first;
    }
    return wrong + (n > 1 ? first + second : first);
}

/* Turns the products of one token with the router into scores, in place; of SCORING_SIGMOID_OF_CHOSEN they are scores as
 * they are. */
INLINE void score_experts(GLOBAL float *products, float input_scale, GLOBAL const float *bias, uint n, uint scoring,
                          LOCAL float *scratch)
{
    float largest = NEGATIVE_INFINITY, sum = 0.0f;
    for (uint e = LANE; e < n; e += LANES) {
        float x = FMA(products[e], input_scale, bias ? bias[e] : 0.0f);
        products[e] = x;
        largest = x > largest ? x : largest;
    }
    largest = group_max(largest, scratch);
    for (uint e = LANE; e < n; e += LANES) {
        float score = scoring == SCORING_SIGMOID         ? sigmoid_of(products[e])
                      : scoring == SCORING_ROOT_SOFTPLUS ? SQRT(softplus_of(products[e]))
                      : scoring == SCORING_SOFTMAX       ? EXP(products[e] - largest)
                                                         : products[e];
        products[e] = score;
        sum += score;
    }
    sum = scoring != SCORING_SOFTMAX ? 1.0f : group_sum(sum, scratch);
    for (uint e = LANE; e < n; e += LANES)
        products[e] = DIVIDE(products[e], sum);
}

/* Leaves out, of n experts in sets of neighbours, those outside the best sets; a set counts as its two best experts do. */
INLINE void leave_best_sets(LOCAL float *ranks, uint n, uint sets, uint sets_used, LOCAL float *of_sets)
{
    uint each = n / sets;
    for (uint s = LANE; s < sets; s += LANES)
        of_sets[s] = best_two(ranks + s * each, each);
    BARRIER();
    for (uint s = LANE; s < sets; s += LANES) {
        uint end = better_than(of_sets, sets, s) < sets_used ? s * each : (s + 1) * each;
        for (uint e = s * each; e < end; e++)
            ranks[e] = NEGATIVE_INFINITY;
    }
    BARRIER();
}

/* Returns whether an expert is one of those that a token has. */
INLINE bool is_given(GLOBAL const int *own, uint used, uint expert)
{
    bool found = false;
    for (uint k = 0; k < used; k++)
        found = found || (uint)own[k] == expert;
    return found;
}

/* A group takes a token. That an expert is among the best is found by counting those that are better: every lane can do
 * so for its own experts, and equal ranks are decided as on the CPU. */
KERNEL(route, P_ROUTE)
{
    LOCAL_ARRAY(float, scratch, SCRATCH_FOR_ONE);
    LOCAL_ARRAY(float, ranks, MOST_EXPERTS);
    LOCAL_ARRAY(float, of_sets, MOST_EXPERTS);
    for (uint t = GROUP; t < step->count; t += GROUPS) {
        GLOBAL float *scores = products + (size_t)t * n, *share = shares + (size_t)t * (n + 1);
        GLOBAL const int *own = given ? given + (size_t)step->row[t].token * used : given;
        score_experts(scores, input_scale, bias, n, scoring, scratch);
        for (uint e = LANE; e < n; e += LANES)
            ranks[e] = scores[e] + (correction ? correction[e] : 0.0f);
        BARRIER();
        if (sets > 1)
            leave_best_sets(ranks, n, sets, sets_used, of_sets);
        float sum = 0.0f;
        for (uint e = LANE; e < n; e += LANES) {
            float score = scoring == SCORING_SIGMOID_OF_CHOSEN ? sigmoid_of(scores[e]) : scores[e];
            score = ranks[e] == ranks[e] ? score : ranks[e];
            share[e] = (own ? is_given(own, used, e) : better_than(ranks, n, e) < used) ? score : 0.0f;
            sum += share[e];
        }
        sum = group_sum(sum, scratch);
        float factor = of_sum && sum > 0.0f ? DIVIDE(scale, sum) : scale;
        for (uint e = LANE; e < n; e += LANES)
            share[e] = share[e] != 0.0f ? share[e] * factor * (factors ? factors[e] : 1.0f) : 0.0f;
        if (LANE == 0)
            share[n] = shared_gate ? shared * sigmoid_of(shared_gate[t]) : shared;
        BARRIER(); /* before the next token overwrites ranks */
    }
}

/* A group takes a token and lists the places of each expert, one after the other. */
KERNEL(expand, P_EXPAND)
{
    for (uint t = GROUP; t < step->count; t += GROUPS) {
        uint at = 0;
        for (uint k = 0; k < chosen_count[t]; k++) {
            uint e = chosen[(size_t)t * experts + k], begin = ranges[2 * e], end = ranges[2 * e + 1];
            for (uint i = begin + LANE; i < end; i += LANES)
                list[(size_t)t * n + at + i - begin] = i;
            at += end - begin;
        }
        if (LANE == 0) {
            listed[t] = at;
            if (totals)
                totals[t * TOTALS + column] += at;
        }
    }
}

/* Returns the place of an expert among the first `used` chosen ones. */
INLINE uint place_of(GLOBAL const uint *chosen, uint used, uint expert)
{
    uint place = 0;
    while (place + 1 < used && chosen[place] != expert)
        place++;
    return place;
}

/* A team takes an item, PRODUCT_ROWS places of the list, each with an input of its own. */
INLINE void score(int format, GLOBAL const step_record *step, GLOBAL const uchar *w, GLOBAL const ushort *scales,
                  GLOBAL const uint *list, GLOBAL const uint *listed, GLOBAL const uint *chosen,
                  GLOBAL const uint *owners, GLOBAL const float *x, GLOBAL float *y, uint experts, uint used, uint n,
                  uint columns, uint team, uint teams, LOCAL float *scratch)
{
    uint by_8 = COLUMNS_BY_8(columns);
    for (uint t = 0; t < step->count; t++)
        for (uint first = team * PRODUCT_ROWS; first < listed[t]; first += teams * PRODUCT_ROWS) {
            wide sums[1][PRODUCT_ROWS];
            NO_UNROLL
            for (uint r = 0; r < PRODUCT_ROWS; r++) {
                uint neuron = listed_row(list + (size_t)t * n, first, r, listed[t]);
                uint place = place_of(chosen + (size_t)t * experts, used, owners[neuron]);
                GLOBAL const float *hidden = x + ((size_t)t * used + place) * columns;
                GLOBAL const uchar *row = row_of(format, w, neuron, columns);
                GLOBAL const ushort *scale = scales_of(format, scales, neuron, columns);
                wide sum = wide_zero();
                for (uint at = TEAM_LANE * 8; at < by_8; at += TEAM_LANES * 8)
                    sum = wide_dot(sum, weights_8(format, row, scale, at), float8_load(hidden + at));
                for (uint at = by_8 + TEAM_LANE; at < columns; at += TEAM_LANES)
                    sum = wide_add(sum, weight_1(format, row, at) * hidden[at]);
                sums[0][r] = sum;
            }
            store_rows(sums, 1, 1, y + (size_t)t * n + first, n, listed[t] - first, FINISH_STORE, scratch);
        }
}

#define X(id, name, values, value_bytes, scale_bytes)                                                 \
    KERNEL(score_##name, P_SCORE)                                                                     \
    {                                                                                                 \
        LOCAL_ARRAY(float, scratch, GROUP_SCRATCH);                                                   \
        score(W_##id, step, w, scales, list, listed, chosen, owners, x, y, experts, used, n, columns, \
              GROUP *TEAMS + TEAM, GROUPS * TEAMS, scratch);                                          \
    }
DEVICE_FORMATS(X)
#undef X

/* An item is ACTIVATE_NEURONS neighbouring places of one token. */
KERNEL(weigh, P_WEIGH)
{
    uint parts = (n + ACTIVATE_NEURONS - 1) / ACTIVATE_NEURONS;
    for (uint item = GROUP; item < step->count * parts; item += GROUPS) {
        uint t = item / parts, begin = item % parts * ACTIVATE_NEURONS;
        uint end = least(begin + ACTIVATE_NEURONS, listed[t]);
        for (uint i = begin + LANE; i < end; i += LANES) {
            size_t at = (size_t)t * n + i;
            h[at] *= shares[(size_t)t * experts + owners[list[at]]];
        }
    }
}
