import type { ReactNode } from 'react'
import { Select } from '../kit/field.tsx'
import { useWords } from '../words/language.tsx'
import { shellWords } from '../words/shell.ts'
import { prefer, usePreferences } from './preferences.ts'

/** Each language is listed by its native name. */
export function LanguageChoice(): ReactNode {
  const say = useWords(shellWords)
  const { language } = usePreferences()
  return (
    <Select
      bare
      label={say('language')}
      value={language}
      options={[
        ['en', 'English'],
        ['zh', '简体中文'],
      ]}
      onChange={(chosen) => prefer({ language: chosen })}
    />
  )
}

export function ThemeChoice(): ReactNode {
  const say = useWords(shellWords)
  const { theme } = usePreferences()
  return (
    <Select
      bare
      label={say('theme')}
      value={theme}
      options={[
        ['system', say('themeSystem')],
        ['light', say('themeLight')],
        ['dark', say('themeDark')],
      ]}
      onChange={(chosen) => prefer({ theme: chosen })}
    />
  )
}
