import { type ReactNode, useMemo, useState } from 'react'
import { kitWords } from '../../words/kit.ts'
import { useFormat, useWords } from '../../words/language.tsx'
import { Button } from '../button.tsx'
import { Copy } from './copy.tsx'
import { visibleLines } from './visible.ts'

export interface JsonProps {
  readonly value: unknown
  /** What it is, for screen readers. */
  readonly label: string
}

/** The characters shown at first, and added at each press: the browser lays out text; there is no tree. */
const firstChars = 8_000
const moreChars = 64_000

/** A JSON value as text: whole to copy, shown in pieces so that a large one stops nothing. */
export function Json({ value, label }: JsonProps): ReactNode {
  const text = useMemo(() => textOf(value), [value])
  return <Code text={text} label={label} />
}

export interface CodeProps {
  readonly text: string
  readonly label: string
}

/** Plain text of many lines, as it is. */
export function Code({ text, label }: CodeProps): ReactNode {
  const say = useWords(kitWords)
  const format = useFormat()
  const [limit, setLimit] = useState(firstChars)
  const isCut = text.length > limit
  const shown = useMemo(() => visibleLines(isCut ? text.slice(0, limit) : text), [text, limit, isCut])
  return (
    <figure className="code">
      <div className="code-copy">
        <Copy text={text} />
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
      <section aria-label={label} tabIndex={0}>
        <pre dir="ltr">
          <bdi>{shown}</bdi>
        </pre>
      </section>
      {isCut && (
        <figcaption>
          {say('truncated', { shown: format.bytes(limit), size: format.bytes(text.length) })}{' '}
          <Button look="quiet" onPress={() => setLimit(limit + moreChars)}>
            {say('showMore')}
          </Button>
          <Button look="quiet" onPress={() => setLimit(text.length)}>
            {say('showAll', { size: format.bytes(text.length) })}
          </Button>
        </figcaption>
      )}
    </figure>
  )
}

function textOf(value: unknown): string {
  if (value === undefined) return ''
  return JSON.stringify(value, null, 2)
}
