import { useSyncExternalStore } from 'react'
import { type Language, localeOf } from '../words/catalogue.ts'
import { createStored, type Stored, useStored } from './stored.ts'

/** The user's choices, stored in the browser. */
export interface Preferences {
  readonly language: Language
  readonly theme: Theme
}
export type Theme = 'system' | 'light' | 'dark'

const place = 'signalbox.preferences'

export const preferences: Stored<Preferences> = createStored(read())

export function usePreferences(): Preferences {
  return useStored(preferences)
}

const dark = matchMedia('(prefers-color-scheme: dark)')

/** Whether the page is dark now, by choice or because the system is. */
export function useDark(): boolean {
  const { theme } = usePreferences()
  const isSystemDark = useSyncExternalStore(followSystem, () => dark.matches)
  return theme === 'system' ? isSystemDark : theme === 'dark'
}

function followSystem(changed: () => void): () => void {
  dark.addEventListener('change', changed)
  return () => dark.removeEventListener('change', changed)
}

/** Changes and stores preferences. */
export function prefer(change: Partial<Preferences>): void {
  preferences.set({ ...preferences.get(), ...change })
  try {
    localStorage.setItem(place, JSON.stringify(preferences.get()))
  } catch {
    // Storage may be blocked; then the preferences last until the page closes.
  }
}

/** Puts them on the page, now and whenever they change. */
export function showPreferences(): void {
  const show = () => {
    const { language, theme } = preferences.get()
    const root = document.documentElement
    root.lang = localeOf[language]
    if (theme === 'system') delete root.dataset.theme
    else root.dataset.theme = theme
  }
  show()
  preferences.subscribe(show)
}

function read(): Preferences {
  const spoken = navigator.language.toLowerCase().startsWith('zh') ? 'zh' : 'en'
  try {
    const { language, theme } = JSON.parse(localStorage.getItem(place) ?? '{}') as Partial<Preferences>
    return {
      language: language === 'en' || language === 'zh' ? language : spoken,
      theme: theme === 'light' || theme === 'dark' ? theme : 'system',
    }
  } catch {
    return { language: spoken, theme: 'system' }
  }
}
