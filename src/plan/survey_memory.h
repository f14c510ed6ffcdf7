/* survey_memory.h - stores surveys between runs: a small JSON file per machine, device and model. */
#ifndef PLAN_SURVEY_MEMORY_H
#define PLAN_SURVEY_MEMORY_H

#include "survey.h"

#define SURVEY_KEY_SIZE 33

/* Writes 32 hexadecimal digits that identify what was measured: the machine, the threads and the model as guard_key does,
 * the device, the selectors of the layers with their thresholds, hotness, and what sessions will be. */
void survey_key(char out[SURVEY_KEY_SIZE], const hearth_engine *engine, const model_load *load, const cost_model *cost,
                const survey_options *options);
/* Reads folder/survey-KEY.json (folder NULL: nothing). Returns false where it is missing, damaged or of another key; *s is
 * then unchanged except the contents of `layers`. */
bool survey_recall(survey *s, const char *folder, const char *key);
/* Writes it under its key, whole or not at all. A failure is ignored. */
void survey_remember(const survey *s, const char *folder);

/* Removes what is stored under its key. */
void survey_forget(const survey *s, const char *folder);

#endif
