import { type FormEvent, type ReactNode, useId, useState } from 'react'
import { Button } from '../../../kit/button.tsx'
import { Dialog } from '../../../kit/dialog.tsx'
import { Problem } from '../../../kit/problem.tsx'
import { kitWords } from '../../../words/kit.ts'
import { useWords } from '../../../words/language.tsx'

export interface FormDialogProps {
  readonly title: string
  readonly act: string
  /** Closes when it resolves; what it throws is shown, and what was written stays. */
  readonly onSubmit: () => Promise<unknown>
  readonly onClose: () => void
  readonly children: ReactNode
}

/** A form in a dialog. */
export function FormDialog({ title, act, onSubmit, onClose, children }: FormDialogProps): ReactNode {
  const say = useWords(kitWords)
  const [working, setWorking] = useState(false)
  const [error, setError] = useState<unknown>()
  const submit = async (event: FormEvent) => {
    event.preventDefault()
    if (working) return
    setWorking(true)
    setError(undefined)
    try {
      await onSubmit()
      onClose()
    } catch (thrown) {
      setError(thrown)
      setWorking(false)
    }
  }
  return (
    <Dialog wide title={title} onClose={onClose}>
      <form className="monitor-form" onSubmit={(event) => void submit(event)}>
        {children}
        {error !== undefined && <Problem error={error} />}
        <div className="dialog-feet">
          <Button onPress={onClose}>{say('cancel')}</Button>
          <Button type="submit" look="main" disabled={working}>
            {working ? say('working') : act}
          </Button>
        </div>
      </form>
    </Dialog>
  )
}

export interface FieldProps {
  readonly label: string
  readonly value: string
  readonly onChange: (value: string) => void
  readonly hint?: string
  readonly first?: boolean
  readonly mono?: boolean
  readonly hidden?: boolean
}

/** A field with its name above it and what it takes below. */
export function Field({ label, value, onChange, hint, first, mono, hidden }: FieldProps): ReactNode {
  const id = useId()
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <input
        id={id}
        value={value}
        type={hidden ? 'password' : 'text'}
        className={mono ? 'mono' : undefined}
        data-first={first || undefined}
        aria-describedby={hint === undefined ? undefined : `${id}-hint`}
        autoComplete={hidden ? 'new-password' : 'off'}
        spellCheck={false}
        onChange={(event) => onChange(event.target.value)}
      />
      {hint !== undefined && (
        <p id={`${id}-hint`} className="aside">
          {hint}
        </p>
      )}
    </div>
  )
}
