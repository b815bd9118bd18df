import { type ReactNode, useEffect } from 'react'
import { serverNow } from '../../live/server-clock.ts'
import { createStored, type Stored, useStored } from '../../shell/stored.ts'
import { kitWords } from '../../words/kit.ts'
import { useFormat, useWords } from '../../words/language.tsx'

/** One clock for the page; it stops while the page is hidden. */
const clock: Stored<number> = createStored(serverNow())
let watchers = 0
let timer: ReturnType<typeof setInterval> | undefined

/** The present, to the second. */
export function useNow(): number {
  useEffect(() => {
    watchers++
    timer ??= setInterval(() => {
      if (!document.hidden) clock.set(serverNow())
    }, 1_000)
    clock.set(serverNow())
    return () => {
      watchers--
      if (watchers > 0) return
      clearInterval(timer)
      timer = undefined
    }
  }, [])
  return useStored(clock)
}

export interface TimeProps {
  /** Epoch milliseconds; null: it has not happened. */
  readonly at: number | null | undefined
}

/** How long ago or how soon; the exact instant in its title; pressing copies it as ISO 8601. */
export function Time({ at }: TimeProps): ReactNode {
  const say = useWords(kitWords)
  const format = useFormat()
  const now = useNow()
  if (at === null || at === undefined) return <span className="aside">{say('never')}</span>
  const iso = new Date(at).toISOString()
  return (
    <time
      dateTime={iso}
      title={`${format.instant(at)}\n${iso}`}
      onCopy={(event) => {
        event.preventDefault()
        event.clipboardData.setData('text/plain', iso)
      }}
    >
      {format.relative(at, now)}
    </time>
  )
}

export interface SpanProps {
  readonly ms: number | null | undefined
}

/** A length of time. */
export function Span({ ms }: SpanProps): ReactNode {
  const format = useFormat()
  return ms === null || ms === undefined ? <span className="aside">–</span> : format.span(ms)
}
