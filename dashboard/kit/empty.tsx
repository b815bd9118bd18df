import type { ReactNode } from 'react'
import { Icon, type IconName } from './icon.tsx'

export interface EmptyProps {
  readonly icon: IconName
  /** What there is not. */
  readonly title: string
  /** What to do next: a sentence, a link, a command to copy. */
  readonly children: ReactNode
}

/** Nothing to show, and what to do about it. */
export function Empty({ icon, title, children }: EmptyProps): ReactNode {
  return (
    <div className="empty">
      <Icon name={icon} />
      <p className="empty-title">{title}</p>
      <div className="empty-next">{children}</div>
    </div>
  )
}
