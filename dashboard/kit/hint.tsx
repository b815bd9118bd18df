import type { ReactNode } from 'react'

export interface HintProps {
  readonly keys: string
}

/** A key beside what it does, for those who see it; the help names them all to everybody. */
export function Hint({ keys }: HintProps): ReactNode {
  return (
    <span className="hint" aria-hidden="true">
      <kbd>{keys}</kbd>
    </span>
  )
}
