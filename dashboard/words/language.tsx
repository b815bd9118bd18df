import { useMemo } from 'react'
import { usePreferences } from '../shell/preferences.ts'
import { type Catalogue, type Entry, fill, type Language, type Say } from './catalogue.ts'
import { type Format, formatOf } from './format.ts'

/** The phrases of a component, in the user's language. */
export function useWords<C extends Catalogue>(words: C): Say<C> {
  const { language } = usePreferences()
  return useMemo(() => sayIn(words, language), [words, language])
}

/** The same outside of components. */
export function sayIn<C extends Catalogue>(words: C, language: Language): Say<C> {
  return (key, ...[values]) => fill(words[key] as Entry, language, values ?? {})
}

/** Numbers, spans and instants in the reader's language. */
export function useFormat(): Format {
  return formatOf(usePreferences().language)
}
