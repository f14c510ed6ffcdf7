/* pre_tokenizers.c - the table of pre-tokenizers.
 *
 * Most expressions are relatives of those of GPT-2 and of cl100k (tiktoken), so they are put together from parts. */
#include "pre_tokenizers.h"

#include <string.h>

/* ------------------------------------------------------------------- parts */

/* English endings: in lower case only, or in any. */
#define ENDINGS     "'s|'t|'re|'ve|'m|'ll|'d"
#define ANY_ENDINGS "(?i:" ENDINGS ")"

/* A run of blanks, but its last one where a word follows, which begins with it. */
#define BLANKS "\\s+(?!\\S)"

/* GPT-2: words, numbers and marks, each with the blank before it. */
#define GPT2 ENDINGS "| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|" BLANKS "|\\s+"

/* cl100k: a word takes one character before it that is neither letter nor digit nor line end; line ends go with what is
 * before them; numbers are cut by `digits`. */
#define WORD           "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define MARKS          " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
#define LINES          "\\s*[\\r\\n]+|" BLANKS "|\\s+"
#define CL100K(digits) ANY_ENDINGS "|" WORD "|" digits "|" MARKS "|" LINES
#define UP_TO_THREE    "\\p{N}{1,3}"
#define ONE            "\\p{N}"

/* o200k: a word is upper case, then lower case, with its English ending. */
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(ending) \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" ending "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" ending
#define O200K(ending, digits) CASED(ending) "|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" LINES

/* DeepSeek-V3: Chinese and Japanese on their own; a mark goes with the Latin letters behind it. */
#define CJK          "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+"
#define MARKED_LATIN "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
#define DEEPSEEK3    MARKED_LATIN "| ?[\\p{P}\\p{S}]+[\\r\\n]*|" LINES

/* Letters of scripts with two cases, as Unicode 10 knew them (DeepSeek-LLM). */
#define CASED_LETTERS                                                                                                  \
    "A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}\\x{1C4}-\\x{293}\\x{295}-\\x{2AF}"   \
    "\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}\\x{37F}\\x{386}\\x{388}-\\x{38A}\\x{38C}\\x{38E}-\\x{3A1}"     \
    "\\x{3A3}-\\x{3F5}\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}\\x{13A0}-\\x{13F5}"       \
    "\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{"    \
    "1D9A}"                                                                                                            \
    "\\x{1E00}-\\x{1F15}\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}\\x{1F59}\\x{"     \
    "1F5B}"                                                                                                            \
    "\\x{1F5D}\\x{1F5F}-\\x{1F7D}\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}\\x{1FBE}\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{"     \
    "1FCC}"                                                                                                            \
    "\\x{1FD0}-\\x{1FD3}\\x{1FD6}-\\x{1FDB}\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{"     \
    "2107}"                                                                                                            \
    "\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}\\x{2124}\\x{2126}\\x{2128}\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}" \
    "\\x{2139}\\x{213C}-\\x{213F}\\x{2145}-\\x{2149}\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}" \
    "\\x{2CEB}-\\x{2CEE}\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}\\x{A771}-\\x{"     \
    "A787}"                                                                                                            \
    "\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}\\x{FB13}-\\x{FB17}\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{"    \
    "FF5A}"                                                                                                            \
    "\\x{10400}-\\x{1044F}\\x{104B0}-\\x{104D3}\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}"        \
    "\\x{118A0}-\\x{118DF}\\x{1E900}-\\x{1E943}"

/* Scripts that AFMoE cuts off on their own: those of East and South East Asia. */
#define ASIAN                                                                                                        \
    "[\\x{4E00}-\\x{9FFF}\\x{3400}-\\x{4DBF}\\x{8C48}-\\x{FAFF}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}\\x{FF65}-\\x{" \
    "FF9F}"                                                                                                          \
    "\\x{2F00}-\\x{2FDF}\\x{E40}-\\x{E7F}\\x{E80}-\\x{EFF}\\x{1780}-\\x{17FF}\\x{1000}-\\x{109F}\\x{AA60}-\\x{AA7F}" \
    "\\x{A9E0}-\\x{A9FF}\\x{AC00}-\\x{D7AF}\\x{1100}-\\x{11FF}]+"

/* Bloom: everything up to a mark or a blank. */
#define BLOOM " ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{FF0C}\\x{3001}\\x{964}\\x{6D4}\\x{60C})]+"

/* Kimi-K2: o200k, but Han on its own. */
#define NOT_HAN(class) "(?:(?!\\p{Han})" class ")"
#define KIMI_WORD(a, b)                                      \
    "[^\\r\\n\\p{L}\\p{N}]?" NOT_HAN(UPPER) a NOT_HAN(LOWER) \
    b ANY_ENDINGS "?"
#define KIMI "\\p{Han}+|" KIMI_WORD("*", "+") "|" KIMI_WORD("+", "*") "|" UP_TO_THREE "|" MARKS "|" LINES

/* Lines, and what lies between them: for vocabularies that merge over blanks. */
#define WHOLE_LINES "[^\\n]+|[\\n]+"

/* ------------------------------------------------------------------- table */

static const pre_tokenizer rows[] = {
    {"default", {"[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}, false, false},
    {"gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert mpt olmo jais trillion "
     "granite-docling exaone4",
     {GPT2},
     false,
     false},
    {"starcoder refact command-r smollm codeshell exaone minerva-7b mellum2", {ONE, GPT2}, false, false},
    {"falcon", {"[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9][0-9][0-9]"}, false, false},
    {"llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
     {CL100K(UP_TO_THREE)},
     true,
     true},
    {"dbrx smaug-bpe chatglm-bpe", {CL100K(UP_TO_THREE)}, false, false},
    {"glm4 glm5", {CL100K(UP_TO_THREE)}, true, false},
    {"qwen2 deepseek-r1-qwen kormo f2llmv2 stablelm2 hunyuan solar-open megrez grok-2", {CL100K(ONE)}, false, false},
    {"qwen35",
     {ANY_ENDINGS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" LINES},
     false,
     false},
    {"ufakzeka", {WORD "|" ONE "|" MARKS "|" LINES}, false, false},
    {"laguna", {WHOLE_LINES, CL100K(ONE)}, false, false},
    {"minicpm5", {UP_TO_THREE, CL100K("\\p{N}+")}, true, false},
    {"jais-2",
     {ANY_ENDINGS "|" WORD "|" UP_TO_THREE "|" MARKS "|\\s*[\\r\\n]+|\\s{512}(?!\\S)|\\s{256}(?!\\S)|\\s{128}(?!\\S)|"
                  "\\s{64}(?!\\S)|\\s{32}(?!\\S)|\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)|\\s{1,2}(?!\\S)|\\s{1}"},
     false,
     false},
    {"seed-coder", {ANY_ENDINGS "|" WORD "|" ONE "| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" LINES}, false, false},
    {"bailingmoe bailingmoe2 llada-moe",
     {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|" BLANKS
      "|\\s+"},
     false,
     false},
    {"exaone-moe",
     {ANY_ENDINGS "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|"
                  "\\s*[\\r\\n]|" BLANKS "|\\s+"},
     false,
     false},
    {"tekken", {O200K("", ONE)}, true, true},
    {"gpt-4o llama4 kanana2 talkie minimax-m2", {O200K(ANY_ENDINGS "?", UP_TO_THREE)}, false, false},
    {"granite-embed-multi-97m", {O200K(ANY_ENDINGS "?", UP_TO_THREE)}, true, false},
    {"tiny_aya cohere2moe", {"\\d{1,3}(?=(?:\\d{3})*\\b)", O200K(ANY_ENDINGS "?", UP_TO_THREE)}, false, false},
    {"youtu",
     {"[\\x{AC00}-\\x{D7A3}\\x{3131}-\\x{318E}]+|[\\x{FF01}\\x{2026}\\x{201C}\\x{201D}\\x{2018}\\x{2019}\\x{2014}"
      "\\x{FF1A}\\x{FF1B}\\x{FF0C}\\x{3001}-\\x{303F}\\x{FE30}-\\x{FE4F}]+|[\\x{3105}-\\x{312F}]+|" CJK,
      O200K(ANY_ENDINGS "?", ONE)},
     true,
     false},
    {"kimi-k2", {KIMI}, false, false},
    {"deepseek-llm",
     {"[\\r\\n]", "\\s?[" CASED_LETTERS "]+",
      "\\s?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}]+", "\\s+$",
      "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+", "\\p{N}+"},
     false,
     false},
    {"deepseek-coder",
     {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+", ONE},
     false,
     false},
    {"deepseek-v3 hunyuan-dense joyai-llm hy_v4", {UP_TO_THREE, CJK, DEEPSEEK3}, false, false},
    {"spark2_5", {UP_TO_THREE, CJK, MARKED_LATIN "| ?[\\p{P}\\p{S}]+|[\\r\\n]|" BLANKS "|\\s+", ONE}, false, false},
    /* Digits in groups of three, counted from the right. */
    {"afmoe", {"\\p{N}{1,3}(?=(?:\\p{N}{3})*(?!\\p{N}))", ASIAN, DEEPSEEK3}, false, false},
    {"superbpe", {"\\p{N}+", "(?=(\\d{3})+(?!\\d))"}, false, false},
    {"poro-chat bloom gpt3-finnish", {BLOOM}, false, false},
    {"viking", {BLOOM, ONE}, false, false},
    {"chameleon",
     {"<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", "([\\t\\n]|    |  )", ONE, "[\\p{P}!-/:-@\\[-`{-~]",
      GPT2},
     false,
     true},
    {"gemma4 granite-embed-multi-311m sarvam-moe", {WHOLE_LINES}, false, false},
};

static bool has_name(const char *names, span name)
{
    for (const char *p = names; *p;) {
        size_t length = strcspn(p, " ");
        if (span_equal((span){p, length}, name))
            return true;
        p += length + (p[length] == ' ');
    }
    return false;
}

const pre_tokenizer *pre_tokenizer_at(size_t index)
{
    return index < sizeof rows / sizeof *rows ? &rows[index] : NULL;
}

const pre_tokenizer *pre_tokenizer_find(span name)
{
    for (size_t i = 0; pre_tokenizer_at(i); i++)
        if (has_name(rows[i].names, name))
            return &rows[i];
    return NULL;
}
