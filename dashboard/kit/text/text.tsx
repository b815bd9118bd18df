import type { ReactNode } from 'react'
import { visible } from './visible.ts'

export interface TextProps {
  readonly value: string
  /** In the type of code. */
  readonly mono?: boolean
  /** Cut with an ellipsis where there is no room; the whole is in the title. */
  readonly cut?: boolean
}

/**
 * Untrusted text: names, ids, payloads. It always shows as text, in an isolated direction (`bdi`). Invisible characters
 * (control characters, direction marks) become visible.
 */
export function Text({ value, mono = false, cut = false }: TextProps): ReactNode {
  const shown = visible(value)
  const names = ['text', mono && 'mono', cut && 'cut'].filter(Boolean).join(' ')
  return (
    <bdi className={names} title={cut ? shown : undefined}>
      {shown}
    </bdi>
  )
}
