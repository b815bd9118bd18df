/**
 * All phrases of the dashboard, in both languages, side by side. Each view has one file of phrases. A missing key, a
 * missing language and a missing value do not compile.
 *
 *     catalogue({ found: { en: { one: '{count} job', other: '{count} jobs' }, zh: '{count} 个作业' } })
 *     say('found', { count: 3 })
 */
export type Language = 'en' | 'zh'

/** A text with `{names}` in it. English may have a singular and a plural, chosen by `count`. */
export interface Entry {
  readonly en: string | { readonly one: string; readonly other: string }
  readonly zh: string
}
export type Catalogue = Readonly<Record<string, Entry>>

type Names<Text> = Text extends `${string}{${infer Name}}${infer Rest}` ? Name | Names<Rest> : never
type English<E extends Entry> = E['en'] extends { readonly one: infer One; readonly other: infer Other }
  ? One | Other
  : E['en']
type NamesOf<E extends Entry> = Names<English<E>> | Names<E['zh']>
export type Values<E extends Entry> = { readonly [Name in NamesOf<E>]: string | number }

/** The values of a text, if it has any. */
type ValueArguments<E extends Entry> = [NamesOf<E>] extends [never] ? [] : [values: Values<E>]

/** Says one of a catalogue's texts in the chosen language. */
export type Say<C extends Catalogue> = <Key extends keyof C & string>(
  key: Key,
  ...values: ValueArguments<C[Key]>
) => string

/** Declares phrases with their literal types. */
export function catalogue<const C extends Catalogue>(entries: C): C {
  return entries
}

/** The text of an entry, with its values in place; numbers as the language writes them. */
export function fill(
  entry: Entry,
  language: Language,
  values: Readonly<Record<string, string | number>>,
): string {
  return textOf(entry, language, values.count).replaceAll(/\{(\w+)\}/g, (whole, name: string) => {
    const value = values[name]
    if (value === undefined) return whole
    return typeof value === 'number' ? numbers[language].format(value) : isolate(value)
  })
}

/** Hebrew, Arabic and their like: they turn the words around them unless they stand alone. */
const rightToLeft = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/

/** The same text as a part of a sentence that runs from left to right, whatever its own direction. */
export function isolate(text: string): string {
  return rightToLeft.test(text) ? `\u2068${text}\u2069` : text
}

function textOf(entry: Entry, language: Language, count: string | number | undefined): string {
  if (language === 'zh') return entry.zh
  if (typeof entry.en === 'string') return entry.en
  return plurals.select(Number(count)) === 'one' ? entry.en.one : entry.en.other
}

/** As `lang` and Intl call them. */
export const localeOf: Readonly<Record<Language, string>> = { en: 'en', zh: 'zh-CN' }

const plurals = new Intl.PluralRules('en')
const numbers: Readonly<Record<Language, Intl.NumberFormat>> = {
  en: new Intl.NumberFormat('en'),
  zh: new Intl.NumberFormat('zh-CN'),
}
