import type { ReactNode } from 'react'
import { useMay } from '../shell/session.ts'
import { kitWords } from '../words/kit.ts'
import { useWords } from '../words/language.tsx'
import { Button, type ButtonProps } from './button.tsx'

export interface ActionProps extends ButtonProps {
  /** What the server asks of the token for it. */
  readonly scope: 'work' | 'admin'
}

/** A button for something that changes things: without the scope it is there, cannot be pressed, and says why. */
export function Action({ scope, disabled = false, reason, ...button }: ActionProps): ReactNode {
  const may = useMay(scope)
  const say = useWords(kitWords)
  if (may) return <Button {...button} disabled={disabled} reason={reason} />
  return <Button {...button} disabled reason={say('needsScope', { scope })} />
}
