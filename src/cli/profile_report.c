/* profile_report.c - what `hearth profile` counted, in tables and words for people. */
#include "profile_report.h"

#include "../base/memory.h"
#include "../learn/choose.h"

#include <stdio.h>
#include <stdlib.h>

static void print_layer(const char *name, const profile_layer *l)
{
    printf("%5s  %6.1f %6.1f %6.1f %6.1f  %6.1f %6.1f  %6.1f %6.1f %6.1f\n", name, 100 * l->density,
           100 * l->least_density, 100 * l->median_density, 100 * l->high_density, 100 * l->hot_share[0],
           100 * l->hot_share[1], 100 * l->union_density[2], 100 * l->union_density[4], 100 * l->union_density[8]);
}

/* Averages over the layers with a network, since the figures of the others are 0; the shares of hot neurons are taken over all neurons at once. */
static profile_layer average(const profile *p)
{
    profile_layer mean = {.hot_share = {p->hot_share[0], p->hot_share[1]}};
    for (uint32_t i = 0; i < p->layer_count; i++) {
        const profile_layer *l = &p->layers[i];
        mean.density += l->density / p->networks;
        mean.least_density += l->least_density / p->networks;
        mean.median_density += l->median_density / p->networks;
        mean.high_density += l->high_density / p->networks;
        for (size_t k = 1; k <= PROFILE_UNION; k++)
            mean.union_density[k] += l->union_density[k] / p->networks;
    }
    return mean;
}

static void print_layers(const profile *p)
{
    printf("percent of a layer's neurons\n"
           "layer    fire    min median   90 %%   make 80   95 %%   any of 2      4      8 tokens\n");
    for (uint32_t i = 0; i < p->layer_count; i++) {
        char name[16];
        if (p->layers[i].neuron_count == 0)
            continue;
        snprintf(name, sizeof name, "%u", i);
        print_layer(name, &p->layers[i]);
    }
    profile_layer mean = average(p);
    print_layer("all", &mean);
}

/* ------------------------------------------------------------------ experts */

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Prints the line of a layer with experts. sorted [expert_count]: scratch */
static void print_expert_line(uint32_t number, const profile_layer *l, uint64_t tokens, double *sorted)
{
    uint64_t busiest = 0;
    size_t used = 0;
    for (uint32_t e = 0; e < l->expert_count; e++) {
        busiest = l->experts[e].tokens > busiest ? l->experts[e].tokens : busiest;
        if (l->experts[e].tokens > 0)
            sorted[used++] = l->experts[e].density;
    }
    qsort(sorted, used, sizeof *sorted, ascending);
    printf("%5u  %6.1f  %6.1f %6.1f %6.1f  ", number, 100 * l->routed_density, used > 0 ? 100 * sorted[0] : 0,
           used > 0 ? 100 * sorted[used / 2] : 0, used > 0 ? 100 * sorted[used - 1] : 0);
    if (l->shared_density > 0)
        printf("%6.1f", 100 * l->shared_density);
    else
        printf("%6s", "-");
    printf("  %7.1f  %6zu\n", 100 * (double)busiest / (double)tokens, l->expert_count - used);
}

/* A table of the layers with experts: how many neurons of an expert fire for the tokens that chose it. */
static void print_experts(const profile *p)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < p->layer_count; i++)
        most = p->layers[i].expert_count > most ? p->layers[i].expert_count : most;
    double *sorted = most > 0 ? mem_new_array(most, sizeof *sorted) : NULL;
    if (!sorted)
        return;
    puts("percent of an expert's neurons, for the tokens that chose it; of the tokens, what the busiest expert got\n"
         "layer    fire   least median   most  shared  busiest  unused");
    for (uint32_t i = 0; i < p->layer_count; i++)
        if (p->layers[i].expert_count > 0)
            print_expert_line(i, &p->layers[i], p->tokens, sorted);
    mem_free(sorted);
}

/* ------------------------------------------------------------------ what it means */

static double mean_hot_share(const profile *p)
{
    double sum = 0;
    for (uint32_t i = 0; i < p->layer_count; i++)
        sum += p->layers[i].hot_share[0];
    return sum / p->networks;
}

/* Returns what mode exact reads of the networks as a share of what mode dense reads of them: the rows of the first matrix
 * of all neurons that a token considers, and those of the others where they fire. */
static double exact_share(const profile *p, const hearth_model *model)
{
    double exact = 0, dense = 0;
    for (uint32_t i = 0; i < p->layer_count; i++) {
        choose_layer l = choose_layer_of(model, i, p->layers[i].density);
        double others = model->layers[i].ffn.gating == FFN_PLAIN ? 1 : 2;
        exact += l.neurons * (l.used + others * l.fires);
        dense += l.neurons * (1 + others) * l.used;
    }
    return exact / dense;
}

/* Explains the figures, one line each. */
static void print_meaning(const profile *p, const hearth_model *model)
{
    profile_layer mean = average(p);
    const ffn_shape *ffn = &model->layers[model_first_network(model)].ffn;
    bool gated = ffn->gating != FFN_PLAIN, zeros = model_has_zeros(model);
    if (zeros && p->considered_density > p->density)
        printf("considered %.1f %% of the neurons fire that a token considers: those of the experts that it chose and "
               "of the "
               "shared one\n",
               100 * p->considered_density);
    if (zeros)
        printf("density    %.1f %%: exact reads %.0f %% of the bytes of dense feed-forward networks%s\n",
               100 * p->density, 100 * exact_share(p, model),
               gated ? "" : "; without a gate it leaves out\n           rows of down alone");
    else
        printf("counted    activations among the largest quarter of their layer: %s is never zero, so exact skips "
               "nothing, and\n           `--sparsity pruned` would have to leave out small ones\n",
               ffn_activations[ffn->activation].name);
    printf("locality   80 %% of activations come from %.0f %% of a layer's neurons, %.0f %% of the model's; published "
           "for OPT-30B:\n           26 and 17 %%, LLaMA2(ReGLU)-70B 43 and 26 %%, LLaMA2(SwiGLU)-70B 69 and 75 %%\n",
           100 * mean_hot_share(p), 100 * p->hot_share[0]);
    printf("unions     8 tokens in a row need %.1f times the neurons of one: that is what checking 7 guesses costs "
           "instead of 8\n",
           p->density > 0 ? mean.union_density[8] / p->density : 0);
    if (p->probed_tokens > 0)
        printf("hot only   with the hottest 20, 40, 60 %% of the neurons alone the likeliest token stays the same for "
               "%.0f, %.0f, %.0f %%\n           of the corpus's last %llu tokens, which were counted too\n",
               100 * p->hot_only_agreement[0], 100 * p->hot_only_agreement[1], 100 * p->hot_only_agreement[2],
               (unsigned long long)p->probed_tokens);
}

void profile_report(const profile *p, const hearth_model *model)
{
    print_layers(p);
    print_experts(p);
    print_meaning(p, model);
}
