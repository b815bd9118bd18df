import { type FormEvent, type ReactNode, useEffect, useRef, useState } from 'react'
import { Button } from '../kit/button.tsx'
import { Hint } from '../kit/hint.tsx'
import { Icon } from '../kit/icon.tsx'
import { useKeys } from '../kit/keys.ts'
import { Badge } from '../kit/state.tsx'
import { pauseLive, useLiveness } from '../live/connection.ts'
import { useWords } from '../words/language.tsx'
import { shellWords } from '../words/shell.ts'
import { LanguageChoice, ThemeChoice } from './choices.tsx'
import { NamespaceChoice } from './namespace.tsx'
import { go, usePlace } from './router.tsx'
import { signOut, useSignedIn } from './session.ts'
import { helpShown } from './shell-keys.tsx'

export interface TopbarProps {
  readonly isMenuOpen: boolean
  readonly onMenu: () => void
}

const looks = { live: '', paused: 'is-paused', noAnswer: 'is-lost' } as const

/** Search, namespace, live status and the signed-in user. */
export function Topbar({ isMenuOpen, onMenu }: TopbarProps): ReactNode {
  const say = useWords(shellWords)
  const { me, hasToken } = useSignedIn()
  const { paused, lostAt } = useLiveness()
  const state = paused ? 'paused' : lostAt === null ? 'live' : 'noAnswer'
  const name = me.name ?? (me.id === 'local' ? say('local') : me.id)
  return (
    <header className="top">
      <button
        type="button"
        className="button quiet menu"
        aria-expanded={isMenuOpen}
        aria-label={say('menu')}
        onClick={onMenu}
      >
        <Icon name="menu" />
      </button>
      <SearchBox />
      <div className="top-end">
        {me.scope === 'read' && (
          <Badge tone="calm" icon="info" title={say('readOnlyWhy')}>
            {say('readOnly')}
          </Badge>
        )}
        <NamespaceChoice />
        <button
          type="button"
          className={`button quiet live ${looks[state]}`}
          aria-pressed={paused}
          title={say(paused ? 'resume' : 'pause')}
          onClick={() => pauseLive(!paused)}
        >
          <i />
          <span>{say(state)}</span>
        </button>
        <details className="preferences">
          <summary aria-label={say('preferences')} title={say('preferences')}>
            <Icon name="person" />
          </summary>
          <div>
            <p className="aside">{say('signedInAs', { name, scope: me.scope })}</p>
            <LanguageChoice />
            <ThemeChoice />
            <Button look="quiet" icon="keyboard" onPress={() => helpShown.set(true)}>
              {say('keyboard')}
            </Button>
            {hasToken && <Button onPress={() => signOut('left')}>{say('signOut')}</Button>}
          </div>
        </details>
      </div>
    </header>
  )
}

/** Opens the jobs that match a search. The key `/` focuses it from any view. */
function SearchBox(): ReactNode {
  const say = useWords(shellWords)
  const { view, query } = usePlace()
  const present = view === 'jobs' ? (query.search ?? '') : ''
  const [written, write] = useState(present)
  const field = useRef<HTMLInputElement>(null)
  useEffect(() => write(present), [present])
  useKeys({ '/': () => field.current?.select() })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    go('jobs', { ...(view === 'jobs' ? query : {}), cursor: undefined, search: written.trim() })
    field.current?.blur()
  }
  return (
    <search className="searchbox">
      <form onSubmit={submit}>
        <Icon name="search" />
        <input
          ref={field}
          type="search"
          aria-label={say('searchJobs')}
          placeholder={say('searchHint')}
          value={written}
          autoComplete="off"
          spellCheck={false}
          onChange={(event) => write(event.target.value)}
          onKeyDown={(event) => {
            if (event.key === 'Escape') event.currentTarget.blur()
          }}
        />
        <Hint keys="/" />
      </form>
    </search>
  )
}
