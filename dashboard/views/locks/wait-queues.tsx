import { type PointerEvent, type ReactNode, type RefObject, useId, useRef, useState } from 'react'
import { Button } from '../../kit/button.tsx'
import { Empty } from '../../kit/empty.tsx'
import { Input } from '../../kit/field.tsx'
import { Growing } from '../../kit/growing.tsx'
import { useKeys } from '../../kit/keys.ts'
import { Loaded } from '../../kit/loaded.tsx'
import { News } from '../../kit/news.tsx'
import { Page } from '../../kit/page.tsx'
import { Pager } from '../../kit/pager.tsx'
import { Badge } from '../../kit/state.tsx'
import { useSteadyRows } from '../../kit/steady-rows.ts'
import { Text } from '../../kit/text/text.tsx'
import { keepEmptied } from '../../live/emptied.ts'
import { queryClient, useLive } from '../../live/queries.ts'
import { serverNow } from '../../live/server-clock.ts'
import { go, Link, useFilter, usePlace } from '../../shell/router.tsx'
import { useClient } from '../../shell/session.ts'
import { useWords } from '../../words/language.tsx'
import { locksWords } from '../../words/locks.ts'
import { shellWords } from '../../words/shell.ts'
import { Drawing } from './drawing.tsx'
import { emptyLock, keyOfLock, type Summary, worstLocksFirst } from './worst-first.ts'

/** Locks are listed by name, and shown by how much they hold up: this many are asked for at once. */
const askedLocks = 500
const shownLocks = 20
/** An answer with this many locks is refreshed less often than every other second. */
const manyLocks = 100
/** How many waiters the list draws; the page of the lock shows all. */
const drawnWaiters = 6

/** Every line that is held or waited for, drawn. */
export function LinesView(): ReactNode {
  const say = useWords(locksWords)
  const sayShell = useWords(shellWords)
  const client = useClient()
  const { operation, search, cursor: from } = usePlace().query
  const asked = { limit: askedLocks, ...pick({ operation, search, cursor: from }) }
  const key = ['locks', asked] as const
  const ask = async () => {
    const before = queryClient.getQueryData<{ readonly items: readonly Summary[] }>(key)
    const { items, cursor } = await client.locks.list(asked)
    const now = serverNow()
    const all = keepEmptied(before?.items ?? [], items, now, keyOfLock, emptyLock)
    return { items: worstLocksFirst(all, now), cursor }
  }
  const locks = useLive(key, ask, {
    everyMs: (data) => ((data?.items.length ?? 0) > manyLocks ? 5_000 : 2_000),
  })
  const list = useRef<HTMLUListElement>(null)
  useKeys({ j: () => step(list.current, 1), k: () => step(list.current, -1) })
  return (
    <Page title={sayShell('locks')} lead={say('lead')}>
      <Toolbar operations={new Set(locks.data?.items.map((line) => line.operation))} />
      <Loaded query={locks}>
        {({ items, cursor }) => (
          <>
            {items.length === 0 && <Nothing isFiltered={operation !== undefined || search !== undefined} />}
            <Lines list={list} locks={items} isStale={locks.isPlaceholderData} />
            <Pager next={cursor}>
              {items.length > 0 ? say('onPage', { count: items.length }) : undefined}
            </Pager>
          </>
        )}
      </Loaded>
    </Page>
  )
}

/** The locks, worst first. They stand still while the pointer is on one, and a button lets new ones in. */
function Lines({
  list,
  locks,
  isStale,
}: {
  readonly list: RefObject<HTMLUListElement | null>
  readonly locks: readonly Summary[]
  readonly isStale: boolean
}): ReactNode {
  const say = useWords(locksWords)
  const [isPointed, setPointed] = useState(false)
  const steady = useSteadyRows(locks, keyOfLock, { isPointed, isStale })
  const point = (event: PointerEvent) =>
    setPointed(event.type === 'pointerenter' && event.pointerType !== 'touch')
  return (
    <div onPointerEnter={point} onPointerLeave={point}>
      <News steady={steady} />
      <Growing items={steady.rows} step={shownLocks}>
        {(shown) => (
          <ul ref={list} className="locks-lines" aria-label={say('lines')}>
            {shown.map(({ key, row, isGone }) => (
              <li key={key} className="card">
                <Line line={isGone ? emptyLock(row) : row} />
              </li>
            ))}
          </ul>
        )}
      </Growing>
    </div>
  )
}

function Toolbar({ operations }: { readonly operations: ReadonlySet<string> }): ReactNode {
  const say = useWords(locksWords)
  const [operation, setOperation] = useFilter('operation')
  const [search, setSearch] = useFilter('search')
  const field = useRef<HTMLInputElement>(null)
  const known = useId()
  // On this page `/` focuses this search, not the one in the top bar.
  useKeys({ '/': () => field.current?.select() })
  return (
    <div className="toolbar">
      <Input
        bare
        list={known}
        label={say('operation')}
        placeholder={say('anyOperation')}
        value={operation}
        onChange={(value) => setOperation(value.trim())}
      />
      <datalist id={known}>
        {[...operations].map((one) => (
          <option key={one} value={one} />
        ))}
      </datalist>
      <Input
        bare
        ref={field}
        type="search"
        label={say('search')}
        placeholder={say('search')}
        value={search}
        onChange={(value) => setSearch(value.trim())}
      />
      {(operation !== '' || search !== '') && (
        <Button look="quiet" icon="dead" onPress={() => go('locks')}>
          {say('clear')}
        </Button>
      )}
    </div>
  )
}

function Line({ line }: { readonly line: Summary }): ReactNode {
  const say = useWords(locksWords)
  const client = useClient()
  const { operation, resource, waiterCount } = line
  // Request only wait queues with waiters, and again when the number of waiters changes.
  const key = { operation, resource }
  const whole = useLive(['locks', 'line', key, waiterCount], () => client.locks.inspect(key), {
    everyMs: 5_000,
    enabled: waiterCount > 0,
  })
  const waiters = waiterCount === 0 ? [] : (whole.data?.waiters ?? [])
  return (
    <article className="locks-line">
      <header>
        <span className="locks-operation">
          <Text value={operation} cut />
        </span>
        <h2>
          <Link to="locks" query={{ operation, resource }}>
            <Text value={resource} cut />
          </Link>
        </h2>
        {waiterCount === 0 ? (
          <span className="aside">{say('nobodyWaits')}</span>
        ) : (
          <Badge tone="warn" icon="waiting">
            {say('waiting', { count: waiterCount })}
          </Badge>
        )}
      </header>
      <Drawing line={{ ...line, waiters: waiters.slice(0, drawnWaiters) }} />
    </article>
  )
}

function Nothing({ isFiltered }: { readonly isFiltered: boolean }): ReactNode {
  const say = useWords(locksWords)
  return (
    <Empty icon="locks" title={say(isFiltered ? 'noMatch' : 'none')}>
      <p>{say(isFiltered ? 'noMatchNext' : 'noneNext')}</p>
      {!isFiltered && <code>await box.locks.hold('deploy', 'eu-1', {'{ node }'})</code>}
      {!isFiltered && <code>signalbox lock deploy eu-1 -- ./deploy.sh</code>}
    </Empty>
  )
}

/** Moves the focus to the next line or the one before. */
function step(list: HTMLUListElement | null, by: 1 | -1): void {
  const links = [...(list?.querySelectorAll<HTMLElement>('h2 a') ?? [])]
  const now = links.indexOf(document.activeElement as HTMLElement)
  const next = links[Math.min(links.length - 1, Math.max(0, now + by))]
  next?.focus()
  next?.scrollIntoView({ block: 'nearest' })
}

/** Leaves out empty fields. */
function pick<Value>(fields: Readonly<Record<string, Value | undefined>>): Readonly<Record<string, Value>> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value)) as Readonly<
    Record<string, Value>
  >
}
