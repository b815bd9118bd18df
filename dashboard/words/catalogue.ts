/**
 * The one catalogue of what the dashboard says, in both languages, side by side. Each view keeps its own part of it in a
 * file of its own. A key that is missing, a language that is missing and a value that is not handed in do not compile.
 *
 *     catalogue({ found: { en: { one: '{count} job', other: '{count} jobs' }, zh: '{count} 个任务' } })
 *     say('found', { count: 3 })
 */
export type Language = 'en' | 'zh'

/** A text with `{names}` in it; English may say one thing of one and another of more, by `count`. */
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

/** What a text needs: nothing, or its values. */
type Needs<E extends Entry> = [NamesOf<E>] extends [never] ? [] : [values: Values<E>]

/** Says one of a catalogue's texts in the chosen language. */
export type Say<C extends Catalogue> = <Key extends keyof C & string>(
  key: Key,
  ...values: Needs<C[Key]>
) => string

/** Takes a part of the catalogue as it is written. */
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
    return typeof value === 'number' ? numbers[language].format(value) : value
  })
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
