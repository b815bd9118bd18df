import type { ReactNode } from 'react'
import { visible } from '../../kit/text/visible.ts'
import { useWords } from '../../words/language.tsx'
import { nodesWords } from '../../words/nodes.ts'
import './slots.css'

/** More slots than this are drawn as one bar. */
const mostBoxes = 12

export interface SlotsProps {
  readonly name: string
  readonly used: number
  readonly slots: number
  /** Free ones are not to be had just now. */
  readonly closed?: boolean
}

/** Slots as small boxes: a filled one is taken, a crossed one is closed. */
export function Slots({ name, used, slots, closed = false }: SlotsProps): ReactNode {
  const say = useWords(nodesWords)
  const label = say('slotsOf', { name: visible(name), used, slots })
  const share = slots === 0 ? 0 : Math.min(1, used / slots)
  return (
    <span
      className={closed ? 'nodes-slots is-closed' : 'nodes-slots'}
      role="img"
      aria-label={label}
      title={label}
    >
      {slots <= mostBoxes ? (
        Array.from({ length: slots }, (_, nth) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: a slot is its place
          <i key={nth} className={nth < used ? 'is-taken' : undefined} />
        ))
      ) : (
        <b>
          <i style={{ inlineSize: `${share * 100}%` }} />
        </b>
      )}
    </span>
  )
}
