"use strict";
for (const button of document.querySelectorAll("button.copy")) {
  button.addEventListener("click", async () => {
    const text = button.parentElement.querySelector("template").content.textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      // The browser forbids it: the text is shown to be copied by hand.
      const field = document.createElement("textarea");
      field.value = text;
      field.readOnly = true;
      field.rows = 8;
      button.after(field);
      field.select();
      button.textContent = "Press Ctrl+C to copy";
    }
    setTimeout(() => (button.textContent = "Copy as Markdown"), 2000);
  });
}
