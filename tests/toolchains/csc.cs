// A C# 10 compiler with csc's command line, for the toolchain of the tests: the compiler's library is to be had
// as a package, the program around it is not.
using System;
using System.IO;
using System.Linq;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;
using Microsoft.CodeAnalysis.Text;

static class Program
{
    const string InitOnly = "System.Runtime.CompilerServices.IsExternalInit";

    static int Main(string[] words)
    {
        if (words.Contains("-version"))
        {
            Console.WriteLine(typeof(CSharpCompilation).Assembly.GetName().Version);
            return 0;
        }
        var here = Directory.GetCurrentDirectory();
        var given = CSharpCommandLineParser.Default.Parse(words, here, null);
        var files = new SourceFileResolver(given.SourcePaths, here, given.PathMap);
        var sources = given.SourceFiles.Select(file => Parsed(file.Path, given.ParseOptions));
        var references = given.MetadataReferences.Select(each => MetadataReference.CreateFromFile(each.Reference));
        var program = CSharpCompilation.Create(
            given.CompilationName, sources, references, given.CompilationOptions.WithSourceReferenceResolver(files));
        if (program.GetTypeByMetadataName(InitOnly) is null)  // older than records
            program = program.AddSyntaxTrees(CSharpSyntaxTree.ParseText(
                "namespace System.Runtime.CompilerServices { static class IsExternalInit {} }", given.ParseOptions));
        using var output = File.Create(Path.Combine(given.OutputDirectory, given.OutputFileName));
        var result = program.Emit(output, options: given.EmitOptions);
        foreach (var found in given.Errors.Concat(result.Diagnostics))
            if (found.Severity == DiagnosticSeverity.Error)
                Console.WriteLine(CSharpDiagnosticFormatter.Instance.Format(found).Replace(here + "/", ""));
        return result.Success && given.Errors.IsEmpty ? 0 : 1;
    }

    static SyntaxTree Parsed(string path, CSharpParseOptions options)
    {
        using var file = File.OpenRead(path);
        return CSharpSyntaxTree.ParseText(SourceText.From(file), options, path);
    }
}
