/* named.c - the formats of well-known models, written as templates. What each of them looks like is in the model's own
 * documentation; a system message that a format has no place for is put before the first question. */
#include "named.h"

/* Sets `system` to the system message, or to "", and `turns` to the other messages. */
#define SPLIT_SYSTEM                                                           \
    "{%- if messages and messages[0].role == 'system' -%}"                     \
    "{%- set system = messages[0].content -%}{%- set turns = messages[1:] -%}" \
    "{%- else -%}{%- set system = '' -%}{%- set turns = messages -%}{%- endif -%}"

static const struct {
    const char *name, *source;
} templates[] = {
    {"chatml",
     "{%- for m in messages -%}{{ '<|im_start|>' ~ m.role ~ '\\n' ~ m.content ~ '<|im_end|>\\n' }}{%- endfor -%}"
     "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}"},
    {"llama2",
     SPLIT_SYSTEM "{%- if system -%}{%- set system = '<<SYS>>\\n' ~ system ~ '\\n<</SYS>>\\n\\n' -%}{%- endif -%}"
                  "{%- for m in turns -%}{%- if m.role == 'assistant' -%}{{ ' ' ~ m.content ~ ' ' ~ eos_token }}"
                  "{%- else -%}{{ bos_token ~ '[INST] ' ~ (system if loop.first else '') ~ m.content ~ ' [/INST]' }}"
                  "{%- endif -%}{%- endfor -%}"},
    {"llama3",
     "{{- bos_token -}}{%- for m in messages -%}"
     "{{ '<|start_header_id|>' ~ m.role ~ '<|end_header_id|>\\n\\n' ~ m.content | trim ~ '<|eot_id|>' }}{%- endfor -%}"
     "{%- if add_generation_prompt -%}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif -%}"},
    {"mistral",
     SPLIT_SYSTEM "{{- bos_token -}}{%- for m in turns -%}{%- if m.role == 'assistant' -%}"
                  "{{ ' ' ~ m.content ~ eos_token }}{%- else -%}"
                  "{{ '[INST] ' ~ (system ~ '\\n\\n' if system and loop.first else '') ~ m.content ~ ' [/INST]' }}"
                  "{%- endif -%}{%- endfor -%}"},
    {"gemma",
     SPLIT_SYSTEM "{{- bos_token -}}{%- for m in turns -%}"
                  "{{ '<start_of_turn>' ~ ('model' if m.role == 'assistant' else m.role) ~ '\\n' }}"
                  "{{ (system ~ '\\n\\n' if system and loop.first else '') ~ m.content | trim ~ '<end_of_turn>\\n' }}"
                  "{%- endfor -%}{%- if add_generation_prompt -%}{{ '<start_of_turn>model\\n' }}{%- endif -%}"},
    {"phi3", "{%- for m in messages -%}{{ '<|' ~ m.role ~ '|>\\n' ~ m.content ~ '<|end|>\\n' }}{%- endfor -%}"
             "{%- if add_generation_prompt -%}{{ '<|assistant|>\\n' }}{%- endif -%}"},
    {"zephyr", "{%- for m in messages -%}{{ '<|' ~ m.role ~ '|>\\n' ~ m.content ~ eos_token ~ '\\n' }}{%- endfor -%}"
               "{%- if add_generation_prompt -%}{{ '<|assistant|>\\n' }}{%- endif -%}"},
    {"vicuna", SPLIT_SYSTEM "{%- if system -%}{{ system ~ '\\n\\n' }}{%- endif -%}{%- for m in turns -%}"
                            "{%- if m.role == 'assistant' -%}{{ 'ASSISTANT: ' ~ m.content ~ eos_token ~ '\\n' }}"
                            "{%- else -%}{{ 'USER: ' ~ m.content ~ '\\n' }}{%- endif -%}{%- endfor -%}"
                            "{%- if add_generation_prompt -%}{{ 'ASSISTANT:' }}{%- endif -%}"},
    {"alpaca",
     SPLIT_SYSTEM "{%- if system -%}{{ system ~ '\\n\\n' }}{%- endif -%}{%- for m in turns -%}"
                  "{{ '### ' ~ ('Response' if m.role == 'assistant' else 'Instruction') ~ ':\\n' ~ m.content }}"
                  "{{ (eos_token if m.role == 'assistant' else '') ~ '\\n\\n' }}{%- endfor -%}"
                  "{%- if add_generation_prompt -%}{{ '### Response:\\n' }}{%- endif -%}"},
    {"rwkv-world", "{%- set said = namespace(system='') -%}{%- for m in messages if m.role == 'system' -%}"
                   "{%- set said.system = m.content -%}{%- endfor -%}{{- bos_token -}}"
                   "{%- if said.system -%}{{ 'System: ' ~ said.system ~ '\\n\\n' }}{%- endif -%}"
                   "{%- for m in messages -%}{%- if m.role == 'user' -%}{{ 'User: ' ~ m.content | trim ~ '\\n\\n' }}"
                   "{%- elif m.role == 'assistant' and m.content -%}"
                   "{{ 'Assistant: ' ~ m.content.split('</think>')[-1] | trim ~ '\\n\\n' }}{%- endif -%}{%- endfor -%}"
                   "{%- if add_generation_prompt -%}{{ 'Assistant:' }}{%- if enable_thinking is defined -%}"
                   "{{ ' <think>' if enable_thinking else ' <think>\\n</think>' }}{%- endif -%}{%- endif -%}"},
};

#define COUNT (sizeof templates / sizeof *templates)

span named_template_find(const char *name)
{
    for (size_t i = 0; i < COUNT; i++)
        if (span_equal(span_of(name), span_of(templates[i].name)))
            return span_of(templates[i].source);
    return (span){0};
}

const char *named_template_at(size_t index)
{
    return index < COUNT ? templates[index].name : NULL;
}
