import type { ReactNode } from 'react'

export interface HintProps {
  readonly keys: string
}

/** A key beside its action, for sighted users; the help lists all keys for every user. */
export function Hint({ keys }: HintProps): ReactNode {
  return (
    <span className="hint" aria-hidden="true">
      <kbd>{keys}</kbd>
    </span>
  )
}
