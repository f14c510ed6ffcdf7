/* kernels.h - the list of kernels with their parameters: the contract between the code that records programs and the
 * source of the kernels.
 *
 * The same source is compiled as C (host device), as OpenCL C and for CUDA; portable.h explains the macros that make it
 * portable. Every kernel gives correct results for any number of groups and any number of lanes in a group. A kernel
 * works on *items*; group g of G takes the items g, g + G, ..., and the lanes of a group share an item. In CUDA's terms
 * a group is a block and a lane a thread; in OpenCL's, a work-group and a work-item.
 *
 * Shapes: T = step->count rows (tokens), at most PROMPT_ROWS; R is the most that a launch is made for. A parameter
 * [T][n] has row t at t * n. All matrices are [rows][columns] with a row per output, as on the CPU. Block formats store
 * values and scales in separate arrays, for alignment (device_pack in packing.h):
 *
 *     f32, f16, bf16   w: values, row after row; scales: NULL
 *     q8_0             w: int8 [rows][columns];               scales: f16 [rows][columns / 32]
 *     q4_0             w: 16 bytes for each block of 32, in the file's order of nibbles
 *                      [rows][columns / 32][16];              scales: f16 [rows][columns / 32]
 *     q4_1             w: as q4_0;                            scales: f16 d and minimum [rows][columns / 32][2]
 *     q4_K             w: sub-blocks of 32 as blocks of q4_0  [rows][columns / 256][8][16];
 *                      scales: [rows][columns / 256][16 bytes]: f16 d and dmin; then 8 bytes, byte j with the lower
 *                      four bits of the scale of sub-block j and, above them, those of its minimum; then 4 bytes,
 *                      nibble j with the upper two bits of the scale and, above them, those of the minimum
 *     q5_K             w: [rows][columns / 256][160 bytes]: the lower four bits as in q4_K; then 4 bytes for each
 *                      sub-block of 32: bit k of byte b is the upper bit of value 4k + b; scales as in q4_K
 *     q6_K             w: [rows][columns / 256][192 bytes]: the lower four bits as in q4_K; then 8 bytes for each
 *                      sub-block of 32: bits 2k and 2k + 1 of byte 4h + b are the upper bits of value 16h + 4k + b;
 *                      scales: [rows][columns / 256][18 bytes]: f16 d, int8 [16]
 *     mxfp4            w: as q4_0; scales: bf16 [rows][columns / 32], half of the file's power of two
 *
 * Lists: `list` [R][n] contains the rows that each token uses, ascending, of experts those of one after the other's, and
 * `listed` [R] their number; n is the stride that the kernel's description names. NULL: all rows, in order. */
#ifndef DEVICE_KERNELS_KERNELS_H
#define DEVICE_KERNELS_KERNELS_H

/* The tables below are aligned by hand. */
// clang-format off

/* The most tokens of a short step, as batches and answers need, and of a long one, as prompts do (docs/hybrid.md). */
#define STEP_ROWS 8
#define PROMPT_ROWS 512
/* The most experts that route can choose from. */
#define MOST_EXPERTS 1024
/* The most streams of the residual. */
#define MOST_STREAMS 8
/* What stands before an instruction of PTX that only devices of compute capability 9.0 have: it makes a comment of it, until the
 * loader takes it away (cuda_ptx_for_early). */
#define FROM_SM_90 "//sm_90 "

/* The fields of a row of the step record. That is the first parameter of every kernel and holds what differs from step
 * to step: `count` (T), then a `row` for each token, so that a short step needs no more of it than its rows. All are
 * 32-bit integers, so that the host, OpenCL and CUDA agree on the layout. */
#define STEP_ROW_FIELDS(WORD)                                                   \
    WORD(sequence)                                                              \
    WORD(position)   /* within its sequence */                                  \
    WORD(token)                                                                 \
    WORD(state_from) /* the place of the recurrent state before it, or NO_STATE */ \
    WORD(state_to)   /* and of the one after it */                              \
    WORD(score_gain) /* the bits of a float32 g: scores of the row are multiplied with 1 + g */

/* `state_from` of the first row of a sequence: its state is zero. */
#define NO_STATE 0xffffffffu

/* `finish` of product, of embed, norm_ranges and reduce (not RELU there): how a result is stored. */
#define FINISH_STORE 0 /* y = result                     */
#define FINISH_ADD   1 /* y = y + result                 */
#define FINISH_RELU  2 /* y = max(result, 0); NaN gives 0 */

/* `rule` of compact, as kernel_selection. */
#define RULE_ABOVE 0 /* value > threshold */
#define RULE_FROM  1 /* not (value < threshold); NaN passes */
#define RULE_BEYOND 2 /* not (|value| <= threshold); NaN passes */

/* `kind` of activate, as kernel_activation; relu has a threshold (FATReLU): x above `activation_threshold`, else 0.
 * swiglu_clamped has a limit, `activation_threshold` too: with first at most the limit and second within it on both
 * sides, it is first * sigmoid(1.702 first) * (second + 1), always GATING_GATED. silu_limited has one as well, or none, 0:
 * silu(first) at most the limit, times second within it on both sides, GATING_GATED too; silu_clamped is the same with
 * first at most the limit in place of silu(first). The others ignore it. xielu is linear * x, plus positive * x^2 above zero and
 * negative * (exp(x) - 1 - x) below; the others ignore these three. */
#define KIND_SILU      0
#define KIND_RELU      1
#define KIND_RELU2     2
#define KIND_GELU      3
#define KIND_GELU_TANH 4
#define KIND_SWIGLU_CLAMPED 5
#define KIND_SILU_LIMITED   6
#define KIND_SILU_CLAMPED   7
#define KIND_XIELU          8
/* `gating` of activate. */
#define GATING_PLAIN 0 /* h = act(first)                 */
#define GATING_GATED 1 /* h = act(first) * second        */
#define GATING_BOTH  2 /* h = act(first) * act(second)   */

/* Columns of `totals`, the numbers of neurons that are summed over steps. */
#define TOTALS          3
#define TOTAL_COMPUTED  0
#define TOTAL_FIRED     1
#define TOTAL_ACTIVE    2

/* How much work one item is. */
#define PRODUCT_ROWS      4    /* rows of one item of product                                   */
#define TILE_ROWS         64   /* rows of one item of product_many, columns of one of accumulate_many */
#define TILE_TOKENS       32   /* and tokens of both                                            */
#define QUANTIZE_BLOCKS   16   /* blocks of one item of quantize                                */
#define ATTEND_POSITIONS  128  /* positions of one split of attend, and of a page of the cache  */
#define ATTEND_QUERIES    4    /* query heads of one item, which share a key/value head         */
#define CONVOLVE_CHANNELS 256  /* channels of one item of convolve                              */
#define SQUASHED_VALUES   256  /* values of one item of squash                                  */
#define RECUR_ROWS        16   /* rows of a state of one item of recur                          */
#define ACTIVATE_NEURONS  256  /* neurons of one item of activate                               */
#define TALLIED_NEURONS   256  /* neurons of one item of tally                                  */
#define ACCUMULATE_COLUMNS_ITEM 256 /* columns of one item of accumulate                        */
#define REDUCE_COLUMNS_ITEM 32      /* columns of one item of reduce                            */
#define STREAM_COLUMNS    256       /* columns of one item of kernels that change streams of the residual */
#define READ_BYTES        65536     /* bytes of one item of read                                */

/* Parameters after the step: B(type, name) a buffer, V(name) an unsigned value, F(name) a float. "items" is the number
 * of items for device_launch. */

/* x[t] = factor * row token[t] of w, finished; x [T][columns]. by_position 1: row first + position[t] instead.
 * items: R */
#define P_EMBED(B, V, F) \
    B(const uchar, w) B(const ushort, scales) B(float, x) V(columns) V(by_position) V(first) V(finish) F(factor)

/* y[t][i] = W[list ? list[t][i] : i] . x[t], finished; i in [0, list ? listed[t] : rows).
 * x [T][columns] float32; y and list have the stride `stride`. Block formats are decoded to float32.
 * items: ceil(rows / PRODUCT_ROWS) */
#define P_PRODUCT(B, V, F)                                                                          \
    B(const uchar, w) B(const ushort, scales) B(const uint, list) B(const uint, listed) B(const float, x) B(float, y) \
        V(rows) V(columns) V(stride) V(finish)

/* The same for x rounded to 8 bits by quantize: q [T][columns], q_scales [T][columns / 32], and q_sums
 * [T][columns / 32], the sum of each block of q. The integers of a block are summed exactly. */
#define P_PRODUCT_8(B, V, F)                                                                          \
    B(const uchar, w) B(const ushort, scales) B(const uint, list) B(const uint, listed) B(const schar, q) \
        B(const float, q_scales) B(const int, q_sums) B(float, y) V(rows) V(columns) V(stride) V(finish)

/* The same products without lists, for long steps: a weight is read and decoded once for all tokens of a tile.
 * items: ceil(rows / TILE_ROWS) * ceil(R / TILE_TOKENS) */
#define P_PRODUCT_MANY(B, V, F)                                                                                    \
    B(const uchar, w) B(const ushort, scales) B(const float, x) B(float, y) V(rows) V(columns) V(stride) V(finish)
#define P_PRODUCT_MANY_8(B, V, F)                                                                                  \
    B(const uchar, w) B(const ushort, scales) B(const schar, q) B(const float, q_scales) B(const int, q_sums)      \
        B(float, y) V(rows) V(columns) V(stride) V(finish)

/* Products with one matrix for each of `heads` heads: y[h][t] = W[h] . x[h][t], where W[h] are `rows` rows of w. x
 * [heads][T][columns], y [heads][T][rows].
 * items: heads * ceil(rows / PRODUCT_ROWS) */
#define P_PRODUCT_HEADS(B, V, F) \
    B(const uchar, w) B(const ushort, scales) B(const float, x) B(float, y) V(heads) V(rows) V(columns)
#define P_PRODUCT_HEADS_8(B, V, F)                                                                                     \
    B(const uchar, w) B(const ushort, scales) B(const schar, q) B(const float, q_scales) B(const int, q_sums) B(float, y) \
        V(heads) V(rows) V(columns)

/* Products of the experts that each token chose with their own values: y[t] gets, as `finish` says, the sum of W[e] . x[t][place]
 * over those of chosen [R][experts] (the first chosen_count[t]) that have places in [from, to), in their order. ranges [experts][2]:
 * the places of each, as many as its values, none of an expert that is elsewhere. W[e] are `rows` rows of w; w has the matrices of the
 * experts in [from, to) in the order of their places, `columns` each. x [T][stride] has the values of all chosen experts one after
 * another. y [T][rows]. All spans are multiples of 8; of 32 with values of 8 bits, which come as for P_PRODUCT_8.
 * items: R * ceil(rows / PRODUCT_ROWS) */
#define P_PRODUCT_CHOSEN(B, V, F)                                                                                       \
    B(const uchar, w) B(const ushort, scales) B(const uint, chosen) B(const uint, chosen_count) B(const uint, ranges)   \
        B(const float, x) B(float, y) V(experts) V(from) V(to) V(rows) V(columns) V(stride) V(finish)
#define P_PRODUCT_CHOSEN_8(B, V, F)                                                                                     \
    B(const uchar, w) B(const ushort, scales) B(const uint, chosen) B(const uint, chosen_count) B(const uint, ranges)   \
        B(const schar, q) B(const float, q_scales) B(const int, q_sums) B(float, y) V(experts) V(from) V(to) V(rows)    \
        V(columns) V(stride) V(finish)

/* Copies `length` values of each of `heads` heads of each row. Those of head h of row t are at t * from_row + h * from_head,
 * and go to t * to_row + h * to_head. A distance of heads that is 0 says that each head has its values of all T rows together:
 * [heads][T][length]. Each value is multiplied with the logistic function of its gate: those of row t begin at t * gate_row, and
 * each head has `length`; NULL: it is not.
 * items: R * heads */
#define P_MOVE(B, V, F)                                                                                            \
    B(const float, from) B(float, to) B(const float, gates) V(heads) V(length) V(from_row) V(from_head) V(to_row) \
        V(to_head) V(gate_row)

/* Rounds x [T][columns] to 8 bits, as kernel_input of kernel.h says: blocks of 32, scale max / 127, halves to even. A
 * block with a value that is not finite has q 0 and scale NaN; one with max < 2^-120 has q 0 and scale 0.
 * items: ceil(R * columns / 32 / QUANTIZE_BLOCKS) */
#define P_QUANTIZE(B, V, F) \
    B(const float, x) B(schar, q) B(float, q_scales) B(int, q_sums) V(columns)

/* out[t][i] = x[t][i] * weight[i] / sqrt(mean(x[t]^2) + epsilon).   items: R */
#define P_NORM(B, V, F) B(const float, x) B(const float, weight) B(float, out) V(columns) F(epsilon)

/* norm, and quantize of what it gives: columns is a multiple of 32.   items: R */
#define P_NORM_8(B, V, F)                                                                              \
    B(const float, x) B(const float, weight) B(float, out) B(schar, q) B(float, q_scales) B(int, q_sums) \
        V(columns) F(epsilon)

/* Norms `ranges` neighbouring ranges of `length` values of every row, each by itself. x and out have the stride
 * `stride`; out may be x. With y = x of a range, less its mean if centred is 1, the result is
 * factor * (y[i] * weight[i] / sqrt(mean(y^2) + epsilon) + bias[i]), finished. weight NULL: ones; bias NULL: none.
 * items: R * ranges */
#define P_NORM_RANGES(B, V, F)                                                                             \
    B(const float, x) B(const float, weight) B(const float, bias) B(float, out) V(ranges) V(length) V(stride) \
        V(centred) V(finish) F(epsilon) F(factor)

/* Norms the activations h [T][n] of neurons, the first (listed ? listed[t] : n) of a row, in place; those of other
 * neurons are zero: h[t][i] * weight[list ? list[t][i] : i] / sqrt(sum(h[t]^2) / n + epsilon). With squares [T] (NULL:
 * none) it does not divide, but stores sum(h[t]^2) there: the CPU has neurons, too, and norm_joined follows.
 * items: R */
#define P_NORM_NEURONS(B, V, F) \
    B(float, h) B(const float, weight) B(const uint, list) B(const uint, listed) B(float, squares) V(n) F(epsilon)

/* x[t][i] /= sqrt((own[t] + others[t]) / n + epsilon), with the squares of the n neurons of both sides: divides the sum
 * of what they give, since the divisor of their activations was not known before. x [T][columns].   items: R */
#define P_NORM_JOINED(B, V, F) B(float, x) B(const float, own) B(const float, others) V(columns) V(n) F(epsilon)

/* Several streams of the residual (engine/streams.c): `states` has stream i from i * apart on, [T][columns]. w is
 * tanh(products[t] / columns), products [T][streams].
 *
 * Predicts all streams of a token from one another: stream i += sum over j of f[i][j] * stream j, with the streams as they were
 * before and f = predict w, predict [streams * streams][streams]. x [T][columns] becomes the active one.
 * items: R * ceil(columns / STREAM_COLUMNS) */
#define P_PREDICT_STREAMS(B, V, F)                                                                            \
    B(float, states) B(const float, products) B(const float, predict) B(float, x) V(columns) V(streams) V(active) \
        V(apart)
/* Corrects them by what a layer made of the active one, x: stream i += (1 + (correct w)[i]) * (x - the active one), correct
 * [streams][streams]. seen [T][columns] becomes the active one after that, times scales [columns] (NULL: 1).
 * items: as above */
#define P_CORRECT_STREAMS(B, V, F)                                                                                      \
    B(float, states) B(const float, products) B(const float, correct) B(const float, scales) B(const float, x) B(float, seen) \
        V(columns) V(streams) V(active) V(apart)

/* Hyper-connections (stream_connection in model/layer.h): `states` is [T][streams][columns], and a token has M = streams *
 * (2 + streams) weights: before [streams], after [streams], mix [streams][streams]; with `steps` or `mixed` 0 M is 2 * streams, and
 * each stream is mixed of itself alone. `after` is a logistic function times magnitude; epsilon is added to `before`, to `mix`, and,
 * where nothing is mixed, to `after`.
 *
 * weights [T][M] are the products of a matrix with the states of each token, and become the weights by base [M] and scale [3], or 2.
 * items: R */
#define P_WEIGH_CONNECTIONS(B, V, F)                                                                          \
    B(const float, states) B(float, weights) B(const float, base) B(const float, scale) V(columns) V(streams) V(steps) \
        F(magnitude) F(epsilon) F(norm_epsilon)
/* x [T][columns] = sum over i of before[i] * stream i.   items: R * ceil(columns / STREAM_COLUMNS) */
#define P_COLLAPSE_STREAMS(B, V, F) \
    B(const float, states) B(const float, weights) B(float, x) V(columns) V(streams) V(mixed)
/* stream i = after[i] * r + sum over j of mix[j][i] * stream j, with the streams as they were before, of r = x less what
 * collapse_streams makes of them.   items: as above */
#define P_SPREAD_STREAMS(B, V, F) \
    B(float, states) B(const float, weights) B(const float, x) V(columns) V(streams) V(mixed)

/* Streams that are connected by gates (gated_connection in model/layer.h): `states` is [T][streams][columns].
 *
 * Norms each stream by its root mean square: out [T][streams][columns], weight [streams][columns].   items: R * streams */
#define P_NORM_STREAMS(B, V, F) B(const float, states) B(const float, weight) B(float, out) V(columns) V(streams) F(epsilon)
/* x [T][n] = silu(factor * x).   items: ceil(R * n / SQUASHED_VALUES) */
#define P_SQUEEZE(B, V, F) B(float, x) V(n) F(factor)
/* x, and read [T][columns], = 1 / streams * sum over i of logistic(gates[i]) * normed stream i, gates as the streams.
 * items: R * ceil(columns / STREAM_COLUMNS) */
#define P_COLLAPSE_GATES(B, V, F) \
    B(const float, normed) B(const float, gates) B(float, x) B(float, read) V(columns) V(streams)
/* stream i += 2 * logistic(products[i] / streams) * (x - read), products [T][streams].   items: as above */
#define P_SPREAD_GATES(B, V, F) \
    B(float, states) B(const float, products) B(const float, x) B(const float, read) V(columns) V(streams)

/* Adds n-grams to the streams of the residual (ngram_weights in model/layer.h): states and normed are as above, keys too, and normed by
 * their weights; values [T][columns]; weight and convolved_weight [streams][columns]. `normed` becomes what is convolved, g by its
 * norm.   items: R * streams */
#define P_GATE_NGRAMS(B, V, F)                                                                                \
    B(float, states) B(const float, keys) B(const float, values) B(const float, weight) B(const float, convolved_weight) \
        B(float, normed) V(columns) V(streams) F(epsilon)
/* out[t][c] += silu(sum of weight[c][i] * input i), of which input window - 1 is x[t][c] itself, and each other one is `apart` rows
 * before the next. `states` has the inputs of the last (window - 1) * apart rows before, oldest first [rows][channels].
 * items: ceil(channels / CONVOLVE_CHANNELS) */
#define P_CONVOLVE_NGRAMS(B, V, F) \
    B(const float, x) B(const float, weight) B(float, states) B(float, out) V(channels) V(window) V(apart) V(length)

/* Cuts the values of the n neurons of each token, first [T][n]: subtracts m + deviations * s, of their mean m and their
 * deviation s, and makes zero what is below zero then. NaN stays NaN.   items: R */
#define P_CUT(B, V, F) B(float, first) V(n) F(deviations)

/* The cache of keys and values lies in pages: `pages` [sequence][table] are the pages of each sequence, which has position p
 * at place p % ATTEND_POSITIONS of its page p / ATTEND_POSITIONS. `keys` and `values` begin with what page 0 has of one
 * layer: [kv_heads][piece_bytes], or of values [value_piece_bytes], a piece being [positions][length] in the format of the kernel's
 * name: f32, f16, or q8_0, int8 [positions][length] and then the f16 scales [positions][length / 32]; there length is a multiple of
 * 32. The length of a value, value_length, is that of a key or less. What the next page has lies `page_bytes` further. A page has
 * ATTEND_POSITIONS positions, or fewer where no sequence has more. */
#define P_PAGES(V) V(table) V(page_bytes) V(piece_bytes) V(positions)
#define P_VALUES(V) V(value_length) V(value_piece_bytes)

/* Applies RoPE and stores keys and values; value NULL: keys are values too, and stored once. Rotates 2 * pairs values of every
 * query head, from value `first` on, in place, and of every key head while copying it to the cache, by cosine and sine
 * [T][pairs]. Values 2i and 2i + 1 form a pair; halves 1: values i and i + pairs. Stores key and value at the row's sequence and
 * position. query [T][stride_q], key and value [T][stride_k], of which kv_heads * length and kv_heads * value_length are used.
 * Where `together` positions, which divide those of a page, have one key, rows that end them have it, and a piece has so many
 * fewer.
 * items: R * (heads + kv_heads) */
#define P_PLACE(B, V, F)                                                                                       \
    B(float, query) B(const float, key) B(const float, value) B(const float, cosine) B(const float, sine)      \
        B(uchar, keys) B(uchar, values) B(const uint, pages) P_PAGES(V) P_VALUES(V) V(heads) V(kv_heads)       \
        V(length) V(pairs) V(halves) V(first) V(together) V(stride_q) V(stride_k)

/* Computes attention over one split of the positions that a row sees: its own and those before it, at most `window` of
 * them (0: all), or with `chunked` those from the last multiple of `window` on. Split s is the positions
 * [s, s + 1) * ATTEND_POSITIONS, a page of the cache. score = scale * query . key, with `grows` times 1 + the row's score_gain,
 * and then softcap * tanh(score / softcap) unless softcap is 0.
 * Takes the rows from `first_row` on, at most `most_rows`: a long step's results of all splits would need much memory.
 * partial [most_rows][heads][splits][value_length + 2]: the sum of exp(score - m) * value, then m, the greatest score of the
 * split, and the sum of exp(score - m). If the row sees no position of a split, m is -3.4e38 (in place of -infinity),
 * the sum of weights 0, and the values are not written. Query head h uses the key/value head h / (heads / kv_heads),
 * whose keys are read once for ATTEND_QUERIES query heads.
 * items: most_rows * ATTEND_ITEMS(heads, kv_heads, splits) */
#define ATTEND_ITEMS(heads, kv_heads, splits) \
    ((kv_heads) * (((heads) / (kv_heads) + ATTEND_QUERIES - 1) / ATTEND_QUERIES) * (splits))
#define P_ATTEND(B, V, F)                                                                                   \
    B(const float, query) B(const uchar, keys) B(const uchar, values) B(const uint, pages) P_PAGES(V) P_VALUES(V) \
        B(float, partial) V(heads) V(kv_heads) V(length) V(window) V(chunked) V(grows) V(splits) V(stride_q) V(first_row) \
        V(most_rows) F(scale) F(softcap)

/* Combines the splits of attend, for the same rows, into mixed [T][heads * length], length being that of a value, times
 * `gain`. Unless all is 1, splits after a row's position are not read. sinks [heads]: the score of one more position whose value is zero; NULL: there is none. gates [T][stride],
 * of which the first heads * gate_length are used: the result is multiplied with the logistic function of its gate, with
 * softplus 1 with log(1 + exp(gate)); gate_length is length, or 1 where a head has one gate. NULL: it is not.
 * items: most_rows * heads */
#define P_ATTEND_JOIN(B, V, F)                                                                      \
    B(const float, partial) B(const float, sinks) B(const float, gates) B(float, mixed) V(heads) V(length) V(splits) \
        V(stride) V(gate_length) V(softplus) V(all) V(first_row) V(most_rows) F(gain)

/* attend_join, and quantize of what it gives: length is a multiple of 32.   items: most_rows * heads */
#define P_ATTEND_JOIN_8(B, V, F)                                                                              \
    B(const float, partial) B(const float, sinks) B(const float, gates) B(float, mixed) B(schar, q)            \
        B(float, q_scales) B(int, q_sums) V(heads) V(length) V(splits) V(stride) V(gate_length) V(softplus) \
        V(first_row) V(most_rows) F(gain)

/* Chosen positions (attention_shape.chosen in model/layer.h), of rows from the position `limit` on: of the others nothing is
 * computed or written. Rows and pages as of attend. `pool` positions, from the first one on, share a score and are chosen together;
 * pool divides ATTEND_POSITIONS.
 *
 * Makes the key of the pools of which a row is the last position, in key [T][stride], from those of its positions and their gates,
 * the values of the cache: sum of softmax(gate + bias) * key, column by column, bias [pool][length]; NULL: their mean. The cache has
 * one head.   items: R */
#define P_POOL_KEYS(B, V, F)                                                                                   \
    B(float, key) B(const uchar, keys) B(const uchar, values) B(const float, bias) B(const uint, pages) P_PAGES(V)   \
        V(length) V(pool) V(stride)
/* Norms such keys by their root mean square, and turns their first 2 * pairs values by cosine and sine [T][pairs]; pairs as of place.
 * weight [length].   items: R */
#define P_FINISH_POOLS(B, V, F) \
    B(float, key) B(const float, weight) B(const float, cosine) B(const float, sine) V(length) V(pool) V(pairs) V(halves) \
        V(stride) F(epsilon)
/* Scores pools, by the keys of their last positions, which are `apart` = pool rows apart, or by keys of their own, which are 1
 * apart; a piece has `positions` of them then: scores [most_rows][splits][ATTEND_POSITIONS / pool] of whole ones that a row
 * could see = sum over heads of weight * max(0, query . key). query [T][stride_q], of which heads * length are used; weights
 * [T][stride_w], of which heads are, NULL: 1; keys have one head.   items: most_rows * splits
 *
 * With `last_pools` > 0 each head scores for itself, by the best query . key of a pool's positions, NaN being the best; apart is 1, weights are NULL, and of
 * the pools up to the row's own so many last ones are not scored: scores [most_rows][heads][splits][ATTEND_POSITIONS / pool].
 * items: most_rows * heads * splits */
#define P_SCORE_POSITIONS(B, V, F)                                                                             \
    B(const float, query) B(const float, weights) B(const uchar, keys) B(const uint, pages) P_PAGES(V) B(float, scores) \
        V(limit) V(pool) V(last_pools) V(apart) V(heads) V(length) V(splits) V(stride_q) V(stride_w) V(first_row) V(most_rows)
/* Sets the bits of the positions of the `chosen` pools with the highest scores, of equal ones the first, and of those after the last
 * scored pool, in seen [T][choosers][splits][SPLIT_WORDS]: bit p % 32 of word p / 32 is of position p. The other ones of the row's
 * splits become 0. Rows with no more such pools see everything. scores [most_rows][choosers] as above; NaN is the highest.
 * items: most_rows * choosers */
#define P_CHOOSE(B, V, F) \
    B(const float, scores) B(uint, seen) V(chosen) V(pool) V(last_pools) V(choosers) V(splits) V(first_row) V(most_rows)
#define SPLIT_WORDS (ATTEND_POSITIONS / 32)
/* attend, without windows and with values as long as keys, of which rows from the position `limit` on see the positions
 * whose bits are set: those of the only chooser, or each key/value head those of its own. items: as attend */
#define P_ATTEND_CHOSEN(B, V, F)                                                                              \
    B(const float, query) B(const uchar, keys) B(const uchar, values) B(const uint, pages) P_PAGES(V)        \
        B(float, partial) B(const uint, seen) V(limit) V(choosers) V(heads) V(kv_heads) V(length) V(splits) V(stride_q) \
        V(first_row) V(most_rows) F(scale) F(softcap)

/* Summaries of positions (summary_shape in model/layer.h).
 *
 * Takes what is kept of unfinished ones through the rows of a step: of each of `length` columns, and of each part, the largest
 * gate, the sum of exp(gate - largest), and that of the values times it, [parts][3][length], in `states` as of recurrent layers
 * (`state_length` from one place to the next). values and gates have the stride `stride`, [T][parts * length] of them are used;
 * bias [together][parts * length]. pooled [T][length]: the summary of the row's group up to it.
 * items: ceil(length / CONVOLVE_CHANNELS) */
#define P_SUMMARISE(B, V, F)                                                                                     \
    B(const float, values) B(const float, gates) B(const float, bias) B(float, states) B(float, pooled) V(length) \
        V(together) V(parts) V(stride) V(state_length)
/* Brings together the keys of the last `window` positions that a row sees and of its summaries: all of them, or where there are
 * more than `most` (0: never) those of which the bits of all positions are set in seen [T][splits][SPLIT_WORDS], which are so
 * many. keys and summaries begin with what page 0 has of each, with one head; a piece has `positions`, or a part of them. gathered
 * [most_rows][gathered_splits], each ATTEND_POSITIONS keys as in a piece of the cache.   items: most_rows * splits */
#define P_GATHER(B, V, F)                                                                                            \
    B(const uchar, keys) B(const uchar, summaries) B(const uint, pages) P_PAGES(V) B(const uint, seen) B(uchar, gathered) \
        V(length) V(window) V(together) V(most) V(splits) V(gathered_splits) V(first_row) V(most_rows)
/* attend, of what was brought together: keys are values, too, and all queries share them. partial as of attend, of all splits.
 * items: most_rows * ATTEND_ITEMS(heads, 1, splits) */
#define P_ATTEND_GATHERED(B, V, F)                                                                                 \
    B(const float, query) B(const uchar, gathered) B(float, partial) V(heads) V(length) V(window) V(together) V(most) \
        V(splits) V(stride_q) V(first_row) V(most_rows) F(scale)

/* Recurrent layers. `states` begins with what a layer keeps in place 0 (for recur its matrices, for convolve its inputs);
 * that in the next place lies `length` floats further.
 * Row t finds its state at the place step->state_from[t] and leaves it at state_to[t], which may be the same; it sees what
 * the rows before it left. */

/* Convolves each channel over its last `window` inputs: out[t][c] = silu(sum), sum = bias[c] + sum of weight[c][i] * input i,
 * where input window - 1 is x[t][c] itself. With gates, input window - 1 is opens[t][c] * x[t][c], and out[t][c] =
 * closes[t][c] * sum. x, opens and closes have the stride `stride`, out has stride_out and may be x; weight [channels][window];
 * bias NULL: none; opens, and then closes, NULL: no gates. `states` has the inputs before, oldest first [window - 1][channels].
 * items: ceil(channels / CONVOLVE_CHANNELS) */
#define P_CONVOLVE(B, V, F)                                                                                  \
    B(const float, x) B(const float, weight) B(const float, bias) B(const float, opens) B(const float, closes) \
        B(float, states) B(float, out) V(channels) V(window) V(stride) V(stride_out) V(length)

/* Takes the states S [heads][values][columns] through the rows of a step (recurrent_shape in model/layer.h):
 *     S = decay S + gain (v - answer) k',   out = scale * S q + skip v
 * with size = softplus(steps[t][h] + step_bias[h]) and decay = exp(rates[h] * size). delta 0: gain = size, answer = 0, and x
 * [t] has values, keys, queries. delta 1: gain = 1 / (1 + exp(-betas[t][h])), answer = decay S k, and x[t] has queries, keys,
 * values. Head h uses key h % keys, or h / (heads / keys) if neighbours is 1. x, steps and betas have the stride `stride`. out
 * [T][heads * values]. skip [heads]; NULL: none.
 * items: heads * ceil(values / RECUR_ROWS) */
#define P_RECUR(B, V, F)                                                                                          \
    B(const float, x) B(const float, steps) B(const float, betas) B(const float, step_bias) B(const float, rates)  \
        B(const float, skip) B(float, states) B(float, out) V(heads) V(values) V(keys) V(columns) V(delta) V(neighbours) \
        V(stride) V(length) F(scale)

/* Norms `ranges` neighbouring ranges of `length` values of every row of x [T][ranges * length] in place, and multiplies
 * them with silu of gate [T][stride], or, if logistic is 1, with its logistic function: after the norm, whose weight [length] is that
 * of all ranges, or, if before is 1, before it; then weight is [ranges * length].   items: R * ranges */
#define P_NORM_GATED(B, V, F)                                                                                   \
    B(float, x) B(const float, gate) B(const float, weight) V(ranges) V(length) V(stride) V(before) V(logistic) F(epsilon)

/* Mixers whose states have a decay for each column: RWKV-7's, and Kimi Delta Attention. Their vectors lie in rows x [T][stride], each of heads * length values and `pitch` values behind the one before. */
#define WKV_QUERY   0
#define WKV_KEY     1
#define WKV_VALUE   2
#define WKV_DECAY   3 /* of one matrix, or two of low rank; *_prepare make it what a column of the state keeps  */
#define WKV_RATE    4 /* of RWKV-7, likewise; becomes what is removed of the state                              */
#define WKV_SHARE   5 /* of RWKV-7, likewise; of the first layer's values. Of KDA beta, a value for each head   */
#define WKV_GATE    6
#define WKV_ASKED   7 /* made by both                                                                           */
#define WKV_VECTORS 8
/* The parameters of wkv_prepare, each as long: [WKV_PARAMETERS][heads * length]. */
#define WKV_REMOVAL_SCALE 0
#define WKV_RATE_SHARE    1
#define WKV_DECAY_BIAS    2
#define WKV_RATE_BIAS     3
#define WKV_SHARE_BIAS    4
#define WKV_PARAMETERS    5
#define WKV_LARGEST_DECAY 0.6065306597126334f /* exp(-1/2) */

/* Mixes each row of x [T][columns] with that of the token before, which `states` has, and keeps it there in its place:
 * out[j][t][c] = x[t][c] + mix[j][c] * (before[c] - x[t][c]) for so many inputs; out[j] is `apart` values behind out[j - 1].
 * mix [inputs][columns]; out may be x if inputs is 1; before is zero for the first row of a sequence.
 * items: ceil(columns / CONVOLVE_CHANNELS) */
#define P_MIX_INPUTS(B, V, F) \
    B(const float, x) B(const float, mix) B(float, states) B(float, out) V(columns) V(inputs) V(apart) V(length)

/* Replaces x [T][tanhs] by their tanh, and [T][sigmoids], `apart` values behind x, by their logistic function.
 * items: ceil(R * (tanhs + sigmoids) / SQUASHED_VALUES) */
#define P_SQUASH(B, V, F) B(float, x) V(tanhs) V(sigmoids) V(apart)

/* Makes of the vectors what the steps of the states read (recurrent_shape in model/layer.h). first_value [T][heads * length]: with
 * is_first 1 it becomes the values; else values move towards it by their share.   items: R * heads */
#define P_WKV_PREPARE(B, V, F)                                                                                  \
    B(float, x) B(const float, parameters) B(float, first_value) V(heads) V(length) V(pitch) V(stride) V(is_first)

/* The same for Kimi Delta Attention: scales each head's query to a length of 1 / sqrt(length) and its key to 1; decay becomes
 * exp(-|rates[h]| * softplus(decay + bias)), or with lowest below 0 exp(lowest / (1 + exp(-|rates[h]| * (decay + bias)))),
 * asked decay * key, and what is removed, like the key, key / (1 + exp(-beta[h])). bias [heads * length], rates [heads].
 * items: R * heads */
#define P_KDA_PREPARE(B, V, F)                                                                                  \
    B(float, x) B(const float, bias) B(const float, rates) V(heads) V(length) V(pitch) V(stride) F(lowest)

/* Takes the states S [heads][columns][columns] through the rows of a step: S = S diag(decay) + v k' - (S asked) removed', out = S q.
 * out [T][heads * columns]; the state in the next place lies `length` floats further.
 * items: heads * ceil(columns / RECUR_ROWS) */
#define P_RECUR_COLUMNS(B, V, F) \
    B(const float, x) B(float, states) B(float, out) V(heads) V(columns) V(pitch) V(stride) V(length)

/* Norms each head of out [T][heads * length] by its mean and deviation, with weight and bias [heads * length], adds its value
 * times the sum of query * key * bonus, bonus [heads * length], and multiplies the result with its gate.   items: R * heads */
#define P_WKV_FINISH(B, V, F)                                                                                   \
    B(float, out) B(const float, x) B(const float, weight) B(const float, bias) B(const float, bonus)          \
        V(heads) V(length) V(pitch) V(stride) F(epsilon)

/* Ordered compaction: selects the values of each token that pass the rule. values [T][n], of which the first
 * (ids ? id_count[t] : n) are used. ids [R][n]: the id of each value; NULL: its place. bias[id] is added first
 * (NULL: none). Writes the ids of the selected values in order to list [R][n], the values with bias to selected
 * [T][n] (NULL: not written; may be `values` itself), and their number to listed [R]; adds that number to
 * totals[t * TOTALS + column] (NULL: to nothing).   items: R */
#define P_COMPACT(B, V, F)                                                                              \
    B(const float, values) B(const float, bias) B(const uint, ids) B(const uint, id_count) B(uint, list) \
        B(uint, listed) B(float, selected) B(uint, totals) V(n) V(rule) V(column) F(threshold)

/* `scoring` of route, as router_scoring. */
#define SCORING_SOFTMAX           0
#define SCORING_SIGMOID           1
#define SCORING_ROOT_SOFTPLUS     2
#define SCORING_SIGMOID_OF_CHOSEN 3
/* Chooses the experts of each token as router_shape (model/layer.h) says. products [T][n]: the router's, which become
 * scores: times input_scale, with `bias` [n], as scoring says. given [vocabulary][used]: the experts of each token, whatever their scores;
 * NULL: the best `used` by score + correction [n] are chosen (NULL: no bias, no correction); with sets > 1, from the sets_used
 * best of so many equal sets of neighbours, by the sum of their two best. shares [R][n + 1]: scale times the score (of
 * SCORING_SIGMOID_OF_CHOSEN, its logistic function) of a chosen expert, divided by the sum of them all if of_sum is 1, times factors [n] (NULL: 1); 0 for the others; the last
 * one is `shared`, times the logistic function of shared_gate [T] unless that is NULL. n <= MOST_EXPERTS.
 * items: R */
#define P_ROUTE(B, V, F)                                                                                  \
    B(float, products) B(const float, bias) B(const float, correction) B(const float, factors) \
        B(const float, shared_gate) B(const int, given) B(float, shares) V(n) V(used) V(sets) V(sets_used) V(scoring) V(of_sum) \
        F(input_scale) F(scale) F(shared)

/* Lists the neurons of the chosen experts: chosen [R][experts], of which chosen_count [R] are used, ascending. Expert e
 * has the neurons [ranges[e][0], ranges[e][1]); ranges [experts][2]. Writes list [R][n], expert by expert, and listed [R]; adds
 * the number to totals[t * TOTALS + column] (NULL: to nothing).   items: R */
#define P_EXPAND(B, V, F)                                                                                      \
    B(const uint, chosen) B(const uint, chosen_count) B(const uint, ranges) B(uint, list) B(uint, listed) B(uint, totals) \
        V(experts) V(n) V(column)

/* Scores neurons with the hidden units of their experts: y[t][i] = W[neuron] . x[t][place] for neuron list[t][i], whose
 * expert, owners[neuron], is at that place of chosen[t]. y and list [R][n]; x [T][used][columns] float32, in the
 * order of `chosen`. Every listed neuron's expert is among the first `used` chosen ones.
 * items: ceil(n / PRODUCT_ROWS) */
#define P_SCORE(B, V, F)                                                                                     \
    B(const uchar, w) B(const ushort, scales) B(const uint, list) B(const uint, listed) B(const uint, chosen) \
        B(const uint, owners) B(const float, x) B(float, y) V(experts) V(used) V(n) V(columns)

/* h[t][i] *= shares[t][owners[list[t][i]]], the share of that neuron's expert; h and list [R][n], shares [R][experts].
 * items: R * ceil(n / ACTIVATE_NEURONS) */
#define P_WEIGH(B, V, F) \
    B(float, h) B(const uint, list) B(const uint, listed) B(const float, shares) B(const uint, owners) V(experts) V(n)

/* Replaces first[t][i] by the activation of the i-th neuron (of the list, or of all; n is the stride): see GATING_ and
 * KIND_. Biases are indexed by neuron; NULL: none. A neuron that relu or relu2 makes zero gives 0, even if `second` is
 * not finite.
 * items: R * ceil(n / ACTIVATE_NEURONS) */
#define P_ACTIVATE(B, V, F)                                                                                 \
    B(float, first) B(const float, second) B(const float, first_bias) B(const float, second_bias)           \
        B(const uint, list) B(const uint, listed) V(n) V(kind) V(gating) F(activation_threshold)       \
            F(positive) F(negative) F(linear)

/* Counts how often each neuron was listed: adds to fired[i], i < neurons, the number of tokens whose list has i. list [R][n],
 * each token's ascending; fired [neurons].   items: ceil(neurons / TALLIED_NEURONS) */
#define P_TALLY(B, V, F) B(const uint, list) B(const uint, listed) B(uint, fired) V(n) V(neurons)

/* Sums rows of w weighted by h, in `parts` parts: sums [R][parts][columns]. Of a token's m rows (the listed or
 * all `rows`), part p takes those from p * s up to, not including, (p + 1) * s, where s is m / parts rounded up; the last
 * parts may have none. Its sum is that of h[t][i] * W[list ? list[t][i] : i]; h and list have the stride `rows`. w has a
 * row per neuron (down_t).
 * items: R * parts * ceil(columns / ACCUMULATE_COLUMNS_ITEM) */
#define P_ACCUMULATE(B, V, F)                                                                                \
    B(const uchar, w) B(const ushort, scales) B(const uint, list) B(const uint, listed) B(const float, h)    \
        B(float, sums) V(rows) V(columns) V(parts)

/* The same sums of all rows, without lists, for long steps.
 * items: ceil(R / TILE_TOKENS) * parts * ceil(columns / TILE_ROWS) */
#define P_ACCUMULATE_MANY(B, V, F) \
    B(const uchar, w) B(const ushort, scales) B(const float, h) B(float, sums) V(rows) V(columns) V(parts)

/* Adds to x[t][c], or to zero with FINISH_STORE, factor times the sum of all parts of sums [T][parts][columns], then
 * factor * bias[c], then factor * answer[t][c]. A bias or answer that is NULL is left out, and the sums if parts is 0.
 * x may be sums if parts is 1.
 * items: R * ceil(columns / REDUCE_COLUMNS_ITEM) */
#define P_REDUCE(B, V, F)                                                                                     \
    B(const float, sums) B(const float, bias) B(const float, answer) B(float, x) V(columns) V(parts) V(finish) F(factor)

/* best[t] = the index of the greatest of logits [T][n], the first among equals; NaN counts as least.
 * items: R */
#define P_ARGMAX(B, V, F) B(const float, logits) B(uint, best) V(n)

/* Reads total * READ_BYTES bytes to measure bandwidth; out[i] = the sum of the 32-bit words of item i.
 * items: total */
#define P_READ(B, V, F) B(const uchar, data) B(uint, out) V(total)

/* The number formats that have kernels: the one list of them, whose rows name formats of NUMBER_FORMATS; the kernels
 * below, the formats of the kernels' source and the packing follow from it. Float formats are multiplied with float32
 * activations; block formats also with activations of 8 bits. To add one: a row here, its decoding in formats.cl, its
 * packing in packing.c; kcheck then tests it, too.
 *    id    name   per block: values, bytes of w, bytes of scales (kernels.c compares them with NUMBER_FORMATS) */
#define DEVICE_FLOAT_FORMATS(X) \
    X(F32,  f32,    1,   4,  0) \
    X(F16,  f16,    1,   2,  0) \
    X(BF16, bf16,   1,   2,  0)
#define DEVICE_BLOCK_FORMATS(X) \
    X(Q8_0, q8_0,  32,  32,  2) \
    X(Q4_0, q4_0,  32,  16,  2) \
    X(Q4_1, q4_1,  32,  16,  4) \
    X(Q4_K, q4_K, 256, 128, 16) \
    X(Q5_K, q5_K, 256, 160, 16) \
    X(Q6_K, q6_K, 256, 192, 18) \
    X(MXFP4, mxfp4, 32, 16, 2)
#define DEVICE_FORMATS(X) DEVICE_FLOAT_FORMATS(X) DEVICE_BLOCK_FORMATS(X)

/* Every kernel: name, parameters, and who takes an item of it, where a group has many lanes (kernel_taker). The macro that is
 * passed must be called X. */
#define KERNELS_OF_FORMAT(id, name, values, value_bytes, scale_bytes) \
    X(embed_##name, P_EMBED, BY_GROUP) X(product_##name, P_PRODUCT, BY_TEAM) X(accumulate_##name, P_ACCUMULATE, BY_GROUP) \
    X(score_##name, P_SCORE, BY_TEAM) X(product_many_##name, P_PRODUCT_MANY, BY_GROUP) \
    X(product_heads_##name, P_PRODUCT_HEADS, BY_TEAM) X(product_chosen_##name, P_PRODUCT_CHOSEN, BY_TEAM) \
    X(accumulate_many_##name, P_ACCUMULATE_MANY, BY_GROUP)
#define KERNELS_OF_BLOCK_FORMAT(id, name, values, value_bytes, scale_bytes) \
    X(product_8_##name, P_PRODUCT_8, BY_TEAM) X(product_many_8_##name, P_PRODUCT_MANY_8, BY_GROUP) \
    X(product_heads_8_##name, P_PRODUCT_HEADS_8, BY_TEAM) X(product_chosen_8_##name, P_PRODUCT_CHOSEN_8, BY_TEAM)
#define DEVICE_KERNELS(X) \
    DEVICE_FORMATS(KERNELS_OF_FORMAT) \
    DEVICE_BLOCK_FORMATS(KERNELS_OF_BLOCK_FORMAT) \
    X(quantize, P_QUANTIZE, BY_GROUP) X(norm, P_NORM, BY_LARGE_GROUP) X(norm_8, P_NORM_8, BY_LARGE_GROUP) X(norm_ranges, P_NORM_RANGES, BY_GROUP) \
    X(norm_neurons, P_NORM_NEURONS, BY_LARGE_GROUP) X(norm_joined, P_NORM_JOINED, BY_LARGE_GROUP) \
    X(place_f32, P_PLACE, BY_GROUP) X(place_f16, P_PLACE, BY_GROUP) X(place_q8_0, P_PLACE, BY_GROUP) \
    X(attend_f32, P_ATTEND, BY_LARGE_GROUP) X(attend_f16, P_ATTEND, BY_LARGE_GROUP) X(attend_q8_0, P_ATTEND, BY_LARGE_GROUP) \
    X(pool_keys_f32, P_POOL_KEYS, BY_GROUP) X(pool_keys_f16, P_POOL_KEYS, BY_GROUP) X(pool_keys_q8_0, P_POOL_KEYS, BY_GROUP) \
    X(score_positions_f32, P_SCORE_POSITIONS, BY_LARGE_GROUP) X(score_positions_f16, P_SCORE_POSITIONS, BY_LARGE_GROUP) \
    X(score_positions_q8_0, P_SCORE_POSITIONS, BY_LARGE_GROUP) X(choose, P_CHOOSE, BY_LARGE_GROUP) \
    X(attend_chosen_f32, P_ATTEND_CHOSEN, BY_LARGE_GROUP) X(attend_chosen_f16, P_ATTEND_CHOSEN, BY_LARGE_GROUP) \
    X(attend_chosen_q8_0, P_ATTEND_CHOSEN, BY_LARGE_GROUP) \
    X(summarise, P_SUMMARISE, BY_GROUP) \
    X(gather_f32, P_GATHER, BY_GROUP) X(gather_f16, P_GATHER, BY_GROUP) X(gather_q8_0, P_GATHER, BY_GROUP) \
    X(attend_gathered_f32, P_ATTEND_GATHERED, BY_LARGE_GROUP) X(attend_gathered_f16, P_ATTEND_GATHERED, BY_LARGE_GROUP) \
    X(attend_gathered_q8_0, P_ATTEND_GATHERED, BY_LARGE_GROUP) \
    X(attend_join, P_ATTEND_JOIN, BY_GROUP) X(attend_join_8, P_ATTEND_JOIN_8, BY_GROUP) \
    X(convolve, P_CONVOLVE, BY_GROUP) X(recur, P_RECUR, BY_GROUP) X(norm_gated, P_NORM_GATED, BY_GROUP) \
    X(mix_inputs, P_MIX_INPUTS, BY_GROUP) X(squash, P_SQUASH, BY_GROUP) X(wkv_prepare, P_WKV_PREPARE, BY_GROUP) \
    X(kda_prepare, P_KDA_PREPARE, BY_GROUP) \
    X(recur_columns, P_RECUR_COLUMNS, BY_GROUP) X(wkv_finish, P_WKV_FINISH, BY_GROUP) \
    X(predict_streams, P_PREDICT_STREAMS, BY_GROUP) X(correct_streams, P_CORRECT_STREAMS, BY_GROUP) \
    X(weigh_connections, P_WEIGH_CONNECTIONS, BY_LARGE_GROUP) X(collapse_streams, P_COLLAPSE_STREAMS, BY_GROUP) \
    X(spread_streams, P_SPREAD_STREAMS, BY_GROUP) \
    X(norm_streams, P_NORM_STREAMS, BY_GROUP) X(squeeze, P_SQUEEZE, BY_GROUP) X(collapse_gates, P_COLLAPSE_GATES, BY_GROUP) \
    X(gate_ngrams, P_GATE_NGRAMS, BY_GROUP) X(convolve_ngrams, P_CONVOLVE_NGRAMS, BY_GROUP) \
    X(spread_gates, P_SPREAD_GATES, BY_GROUP) X(finish_pools, P_FINISH_POOLS, BY_GROUP) \
    X(cut, P_CUT, BY_LARGE_GROUP) X(compact, P_COMPACT, BY_LARGE_GROUP) X(activate, P_ACTIVATE, BY_GROUP) \
    X(tally, P_TALLY, BY_GROUP) X(move, P_MOVE, BY_GROUP) \
    X(route, P_ROUTE, BY_LARGE_GROUP) X(expand, P_EXPAND, BY_LARGE_GROUP) X(weigh, P_WEIGH, BY_GROUP) \
    X(reduce, P_REDUCE, BY_LARGE_GROUP) X(argmax, P_ARGMAX, BY_LARGE_GROUP) X(read, P_READ, BY_GROUP)

// clang-format on

#ifndef DEVICE_KERNEL_SOURCE /* for C code that launches the kernels */

#include "../../number/format.h"

typedef struct step_row {
#define STEP_WORD(field) uint32_t field;
    STEP_ROW_FIELDS(STEP_WORD)
#undef STEP_WORD
} step_row;

typedef struct step_record {
    uint32_t count;
    step_row row[PROMPT_ROWS]; /* a buffer for shorter steps ends earlier */
} step_record;

typedef enum device_kernel {
#define X(name, parameters, taker) DEVICE_##name,
    DEVICE_KERNELS(X)
#undef X
        DEVICE_KERNEL_COUNT
} device_kernel;

/* Who takes an item: a group; a group with more lanes, since there are few items and much to do in each; or a team of lanes
 * (sums.h), of which a group may have several. */
typedef enum kernel_taker { BY_GROUP, BY_LARGE_GROUP, BY_TEAM } kernel_taker;

/* A name, "product_f16", and a letter for each parameter, step first: 'b' buffer, 'u' unsigned, 'f' float. */
typedef struct device_kernel_row {
    const char *name, *parameters;
    kernel_taker taker;
} device_kernel_row;
extern const device_kernel_row device_kernels[DEVICE_KERNEL_COUNT];

/* What device_pack makes of a block of a format. */
typedef struct device_format {
    uint32_t value_bytes, scale_bytes; /* of a block, in w and in scales */
} device_format;

/* Returns the row of a format; NULL: devices have no kernels for it. */
const device_format *device_format_find(number_format format);
static inline bool device_has_format(number_format format)
{
    return device_format_find(format) != NULL;
}
/* Writes the names of all formats, "f32, f16 ... and q6_K", and returns `out`. */
#define DEVICE_FORMAT_NAMES_SIZE 64
const char *device_format_names(char out[DEVICE_FORMAT_NAMES_SIZE]);

typedef enum format_kernel {
    /* every format has them */
    OF_EMBED,
    OF_PRODUCT,
    OF_PRODUCT_MANY,
    OF_PRODUCT_HEADS,
    OF_PRODUCT_CHOSEN,
    OF_ACCUMULATE,
    OF_ACCUMULATE_MANY,
    OF_SCORE,
    /* only block formats have them */
    OF_PRODUCT_8,
    OF_PRODUCT_MANY_8,
    OF_PRODUCT_HEADS_8,
    OF_PRODUCT_CHOSEN_8,
    OF_COUNT
} format_kernel;

/* Returns a kernel for a format that devices have, and that it is for (asserted). */
device_kernel device_kernel_of(format_kernel which, number_format format);

/* Returns count / per_item, rounded up. */
static inline size_t items_of(size_t count, size_t per_item)
{
    return (count + per_item - 1) / per_item;
}

#endif
#endif
