import { type ReactNode, Suspense, useEffect, useRef, useState } from 'react'
import { Toasts } from '../kit/toast.tsx'
import { useWords } from '../words/language.tsx'
import { shellWords } from '../words/shell.ts'
import { Boundary } from './boundary.tsx'
import { LostBanner } from './lost.tsx'
import { Mark } from './mark.tsx'
import { Navigation } from './navigation.tsx'
import { OutdatedBanner } from './outdated.tsx'
import { usePlace } from './router.tsx'
import { ShellKeys } from './shell-keys.tsx'
import { Topbar } from './top-bar.tsx'
import { viewOf } from './views.ts'

/** What surrounds every view: navigation, the bar at the top, and the places for notices. */
export function Frame(): ReactNode {
  const say = useWords(shellWords)
  const { view } = usePlace()
  const main = useRef<HTMLElement>(null)
  const [isMenuOpen, setMenuOpen] = useState(false)
  const first = useRef(true)
  const View = viewOf(view).component

  // A new view starts at its top, for keyboards and screen readers too.
  // biome-ignore lint/correctness/useExhaustiveDependencies: whenever the view changes
  useEffect(() => {
    setMenuOpen(false)
    if (first.current) first.current = false
    else main.current?.focus({ preventScroll: true })
  }, [view])

  return (
    <div className={isMenuOpen ? 'frame menu-open' : 'frame'}>
      <button type="button" className="skip" onClick={() => main.current?.focus()}>
        {say('skip')}
      </button>
      <aside className="side">
        <Mark />
        <Navigation />
      </aside>
      <Topbar isMenuOpen={isMenuOpen} onMenu={() => setMenuOpen(!isMenuOpen)} />
      <main id="content" ref={main} tabIndex={-1}>
        <LostBanner />
        <OutdatedBanner />
        <Boundary key={view}>
          <Suspense fallback={<p className="loading aside">{say('starting')}</p>}>
            <View />
          </Suspense>
        </Boundary>
      </main>
      <Toasts />
      <ShellKeys />
    </div>
  )
}
