import type { ReactNode } from 'react'
import { visible } from './visible.ts'

export interface TextProps {
  readonly value: string
  /** In the type of code. */
  readonly mono?: boolean
  /** Cut with an ellipsis where there is no room; the whole is in the title. */
  readonly cut?: boolean
  /** Left out where the page is narrow. */
  readonly wideOnly?: boolean
}

/**
 * Text that somebody else chose: names, ids, payloads. It shows as text, whatever is in it: its direction is its own
 * (`bdi`), and what has no shape (control characters, marks that turn the direction) gets one.
 */
export function Text({ value, mono = false, cut = false, wideOnly = false }: TextProps): ReactNode {
  const shown = visible(value)
  const names = ['text', mono && 'mono', cut && 'cut', wideOnly && 'wide-only'].filter(Boolean).join(' ')
  return (
    <bdi className={names} title={cut ? shown : undefined}>
      {shown}
    </bdi>
  )
}
