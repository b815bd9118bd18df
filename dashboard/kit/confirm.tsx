import { type FormEvent, type ReactNode, useId, useState } from 'react'
import { kitWords } from '../words/kit.ts'
import { useWords } from '../words/language.tsx'
import { Button } from './button.tsx'
import { Dialog } from './dialog.tsx'
import { Problem } from './problem.tsx'

export interface ConfirmProps {
  /** The action, as a question with the number it touches: "Retry 1,204 jobs?" */
  readonly title: string
  /** What will happen, and what cannot be undone. */
  readonly children: ReactNode
  /** The verb on the button. */
  readonly act: string
  readonly danger?: boolean
  /** The user has to type this first: for large actions that cannot be undone. */
  readonly typed?: string | undefined
  /** There is nothing to do: the button cannot be pressed. */
  readonly disabled?: boolean
  /** Closes when it resolves; what it throws is shown, and the dialog stays. */
  readonly onConfirm: () => Promise<unknown>
  readonly onClose: () => void
}

/** Asks before something is done. Render it when it is to be asked. */
export function Confirm({
  title,
  children,
  act,
  danger = false,
  disabled = false,
  typed,
  onConfirm,
  onClose,
}: ConfirmProps): ReactNode {
  const say = useWords(kitWords)
  const field = useId()
  const [written, write] = useState('')
  const [working, setWorking] = useState(false)
  const [error, setError] = useState<unknown>()
  const isSure = !disabled && (typed === undefined || written.trim() === typed)

  const submit = async (event: FormEvent) => {
    event.preventDefault()
    if (!isSure || working) return
    setWorking(true)
    setError(undefined)
    try {
      await onConfirm()
      onClose()
    } catch (thrown) {
      setError(thrown)
      setWorking(false)
    }
  }

  return (
    <Dialog title={title} onClose={onClose}>
      <form onSubmit={(event) => void submit(event)}>
        <div className="dialog-body">{children}</div>
        {typed !== undefined && (
          <p className="field">
            <label htmlFor={field}>{say('typeToConfirm', { word: typed })}</label>
            <input
              id={field}
              data-first
              value={written}
              onChange={(event) => write(event.target.value)}
              autoComplete="off"
            />
          </p>
        )}
        {error !== undefined && <Problem error={error} />}
        <div className="dialog-feet">
          <Button onPress={onClose}>{say('cancel')}</Button>
          <Button type="submit" look={danger ? 'danger' : 'main'} disabled={!isSure || working}>
            {working ? say('working') : act}
          </Button>
        </div>
      </form>
    </Dialog>
  )
}
