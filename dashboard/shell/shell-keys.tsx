import type { ReactNode } from 'react'
import { Dialog } from '../kit/dialog.tsx'
import { useKeys } from '../kit/keys.ts'
import { liveness, pauseLive } from '../live/connection.ts'
import { refresh } from '../live/queries.ts'
import { kitWords } from '../words/kit.ts'
import { useWords } from '../words/language.tsx'
import { shellWords } from '../words/shell.ts'
import { prefer } from './preferences.ts'
import { go } from './router.tsx'
import { createStored, type Stored, useStored } from './stored.ts'
import { views } from './views.ts'

export const helpShown: Stored<boolean> = createStored(false)

/** The keys that work everywhere, and the help that names them. */
export function ShellKeys(): ReactNode {
  const isShown = useStored(helpShown)
  useKeys({
    ...Object.fromEntries(views.flatMap(({ name, key }) => (key ? [[`g ${key}`, () => go(name)]] : []))),
    '?': () => helpShown.set(true),
    r: () => void refresh(),
    p: () => pauseLive(!liveness.get().paused),
    t: () => prefer({ theme: isDark() ? 'light' : 'dark' }),
  })
  return isShown ? <Help /> : null
}

function isDark(): boolean {
  const { theme } = document.documentElement.dataset
  return theme === undefined ? matchMedia('(prefers-color-scheme: dark)').matches : theme === 'dark'
}

const here = [
  ['/', 'keySearch'],
  ['j', 'keyNext'],
  ['k', 'keyPrevious'],
  ['Enter', 'keyOpen'],
  ['x', 'keySelect'],
  ['r', 'keyRefresh'],
  ['p', 'keyPause'],
  ['t', 'keyTheme'],
  ['Esc', 'keyClose'],
  ['?', 'keyHelp'],
] as const

function Help(): ReactNode {
  const say = useWords(kitWords)
  const sayShell = useWords(shellWords)
  return (
    <Dialog title={say('keys')} onClose={() => helpShown.set(false)} wide>
      <div className="keys-help">
        <section>
          <h3>{say('keysHere')}</h3>
          <dl>
            {here.map(([key, word]) => (
              <div key={key}>
                <dt>
                  <kbd>{key}</kbd>
                </dt>
                <dd>{say(word)}</dd>
              </div>
            ))}
          </dl>
        </section>
        <section>
          <h3>{say('keysGo')}</h3>
          <dl>
            {views.map(
              ({ name, key }) =>
                key && (
                  <div key={name}>
                    <dt>
                      <kbd>g</kbd> <kbd>{key}</kbd>
                    </dt>
                    <dd>{sayShell(name)}</dd>
                  </div>
                ),
            )}
          </dl>
        </section>
      </div>
    </Dialog>
  )
}
