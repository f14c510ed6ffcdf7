/* family_cases.h - the golden models (tests/data) of which every one is run: engine_family.c checks each of them
 * thoroughly, engine_models.c makes the table of docs/models.md. A family that is added gets its case here. */
#ifndef TESTS_FAMILY_CASES_H
#define TESTS_FAMILY_CASES_H

static const char *const family_cases[] = {"bamboo",
                                           "minicpm-s",
                                           "smollm3",
                                           "arcee",
                                           "bitnet",
                                           "qwen2",
                                           "qwen3",
                                           "olmo2",
                                           "phi3",
                                           "phi3-longrope",
                                           "gemma2",
                                           "gemma3",
                                           "gemma3n",
                                           "gemma4-e",
                                           "gemma4-moe",
                                           "mixtral",
                                           "mixtral-drelu",
                                           "mixtral-drelu-predictor",
                                           "smallthinker",
                                           "qwen3-moe",
                                           "glm4-moe",
                                           "gpt-oss",
                                           "gpt-oss-fractional",
                                           "jais2",
                                           "nemotron",
                                           "falcon-7b",
                                           "falcon-40b",
                                           "gpt2",
                                           "opt",
                                           "nemotron-h",
                                           "nemotron-h-moe",
                                           "nemotron-h-latent",
                                           "qwen3-5",
                                           "qwen3-5-moe"};
#define FAMILY_CASES (sizeof family_cases / sizeof *family_cases)

#endif
