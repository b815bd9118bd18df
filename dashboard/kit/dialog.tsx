import { type ReactNode, useEffect, useId, useRef } from 'react'
import { kitWords } from '../words/kit.ts'
import { useWords } from '../words/language.tsx'
import { Button } from './button.tsx'

export interface DialogProps {
  readonly title: string
  readonly children: ReactNode
  readonly onClose: () => void
  readonly wide?: boolean
}

/** A dialog of the browser's own: it keeps the focus, Escape closes it, and the focus goes back where it was. */
export function Dialog({ title, children, onClose, wide = false }: DialogProps): ReactNode {
  const say = useWords(kitWords)
  const dialog = useRef<HTMLDialogElement>(null)
  const name = useId()

  useEffect(() => {
    const element = dialog.current!
    const before = document.activeElement
    if (!element.open) element.showModal()
    // Otherwise the browser focuses the close button.
    element.querySelector<HTMLElement>('[data-first]')?.focus()
    return () => {
      element.close()
      if (before instanceof HTMLElement) before.focus()
    }
  }, [])

  return (
    <dialog
      ref={dialog}
      className={wide ? 'dialog wide' : 'dialog'}
      aria-labelledby={name}
      onCancel={(event) => {
        event.preventDefault()
        onClose()
      }}
    >
      <header>
        <h2 id={name}>{title}</h2>
        <Button look="quiet" icon="dead" label={say('close')} onPress={onClose}>
          {null}
        </Button>
      </header>
      {children}
    </dialog>
  )
}
