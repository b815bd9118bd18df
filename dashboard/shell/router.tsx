import type { MouseEvent, ReactNode } from 'react'
import { useCallback, useMemo } from 'react'
import { createStored, type Stored, useStored } from './stored.ts'
import { type ViewName, viewAt, viewOf } from './views.ts'

/**
 * The current view and its query, both in the address. Filters live there too, so an address can be saved, shared and
 * revisited. An unknown address opens the overview.
 */
export interface Place {
  readonly view: ViewName
  readonly query: Query
}
/** Empty values are left out of the address. */
export type Query = Readonly<Record<string, string | undefined>>

/** The path the dashboard is mounted at, with a slash at its end. */
const base = new URL(document.baseURI).pathname

const here: Stored<Place> = createStored(read())

/** Where the reader is now. */
export function usePlace(): Place {
  return useStored(here)
}

/** The present place, outside of components. */
export function placeNow(): Place {
  return here.get()
}

/** The address of a view. */
export function hrefOf(view: ViewName, query: Query = {}): string {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) if (value) search.set(name, value)
  return `${base}${viewOf(view).path}${search.size === 0 ? '' : `?${search}`}`
}

/** Goes there; `replace` leaves no step to go back to, as for each letter of a filter. */
export function go(
  view: ViewName,
  query: Query = {},
  { replace = false }: { readonly replace?: boolean } = {},
): void {
  const href = hrefOf(view, query)
  if (replace) history.replaceState(null, '', href)
  else history.pushState(null, '', href)
  const before = here.get()
  here.set(read())
  if (before.view !== view) window.scrollTo(0, 0)
}

/** One filter of the present view, and how to change it. A new filter begins at the first page again. */
export function useFilter(name: string): readonly [value: string, set: (value: string) => void] {
  const { view, query } = usePlace()
  const set = useCallback(
    (value: string) => {
      const now = here.get()
      go(view, { ...now.query, cursor: undefined, [name]: value || undefined }, { replace: true })
    },
    [view, name],
  )
  return [query[name] ?? '', set]
}

/** Several at once. */
export function useFilters(): (change: Query) => void {
  return useCallback((change) => {
    const { view, query } = here.get()
    go(view, { ...query, cursor: undefined, ...change })
  }, [])
}

export interface LinkProps {
  readonly to: ViewName
  readonly query?: Query | undefined
  readonly className?: string | undefined
  readonly title?: string | undefined
  readonly current?: boolean | undefined
  readonly children: ReactNode
}

/** A link to a view; opens in a new tab as any link does. */
export function Link({ to, query = {}, className, title, current, children }: LinkProps): ReactNode {
  const href = useMemo(() => hrefOf(to, query), [to, query])
  const follow = (event: MouseEvent) => {
    if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
    event.preventDefault()
    go(to, query)
  }
  return (
    <a
      href={href}
      className={className}
      title={title}
      aria-current={current ? 'page' : undefined}
      onClick={follow}
    >
      {children}
    </a>
  )
}

/** Begins to follow the browser's own back and forward. */
export function followHistory(): () => void {
  const look = () => here.set(read())
  window.addEventListener('popstate', look)
  look()
  return () => window.removeEventListener('popstate', look)
}

function read(): Place {
  const path = location.pathname.startsWith(base) ? location.pathname.slice(base.length) : ''
  const found = viewAt(path.replace(/\/+$/, ''))
  if (found === undefined) {
    history.replaceState(null, '', base)
    return { view: 'overview', query: {} }
  }
  return { view: found.name, query: Object.fromEntries(new URLSearchParams(location.search)) }
}
