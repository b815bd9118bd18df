import { type FormEvent, type ReactNode, useId, useState } from 'react'
import { Button } from '../kit/button.tsx'
import { Dialog } from '../kit/dialog.tsx'
import { Select } from '../kit/field.tsx'
import { kitWords } from '../words/kit.ts'
import { useWords } from '../words/language.tsx'
import { shellWords } from '../words/shell.ts'
import { enterNamespace, useSignedIn } from './session.ts'

/** Not a valid namespace: names have no control characters. */
const another = '\u0000'

/** The current namespace; a token for every namespace can switch. */
export function NamespaceChoice(): ReactNode {
  const say = useWords(shellWords)
  const { me } = useSignedIn()
  const [asks, setAsks] = useState(false)
  if (!me.everyNamespace)
    return (
      <span className="namespace aside" title={say('namespace')}>
        {me.namespace}
      </span>
    )
  const known = [...new Set([me.namespace, 'default', ...me.namespaces])].sort()
  return (
    <>
      <Select
        bare
        label={say('namespace')}
        value={me.namespace}
        options={[...known.map((name) => [name, name] as const), [another, say('otherNamespace')] as const]}
        onChange={(chosen) => (chosen === another ? setAsks(true) : void enterNamespace(chosen))}
      />
      {asks && <AskNamespace onClose={() => setAsks(false)} />}
    </>
  )
}

function AskNamespace({ onClose }: { readonly onClose: () => void }): ReactNode {
  const say = useWords(shellWords)
  const sayKit = useWords(kitWords)
  const field = useId()
  const [name, setName] = useState('')
  const submit = (event: FormEvent) => {
    event.preventDefault()
    if (name === '') return
    onClose()
    void enterNamespace(name)
  }
  return (
    <Dialog title={say('namespace')} onClose={onClose}>
      <form onSubmit={submit}>
        <p className="field">
          <label htmlFor={field}>{say('namespaceName')}</label>
          <input id={field} value={name} maxLength={191} onChange={(event) => setName(event.target.value)} />
        </p>
        <div className="dialog-feet">
          <Button onPress={onClose}>{sayKit('cancel')}</Button>
          <Button type="submit" look="main">
            {say('enter')}
          </Button>
        </div>
      </form>
    </Dialog>
  )
}
