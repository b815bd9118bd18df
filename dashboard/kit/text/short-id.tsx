import type { ReactNode } from 'react'
import { visible } from './visible.ts'

/** Enough of an id to tell it from others: its end, and its beginning where there is room. All of it is in its title. */
export function ShortId({ id }: { readonly id: string }): ReactNode {
  if (id.length <= 14) return <bdi className="text mono">{visible(id)}</bdi>
  return (
    <bdi className="text mono" title={visible(id)}>
      <span className="roomy-only">{visible(id.slice(0, 5))}</span>…{visible(id.slice(-7))}
    </bdi>
  )
}
